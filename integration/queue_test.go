package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/queue"
)

// TestPipelinesAgreeWithReference runs random sequences of the writes through the server and through queue.Reference and
// compares the whole document after each step (I1, I2, and that a repeat changes nothing).
func TestPipelinesAgreeWithReference(t *testing.T) {
	t.Parallel()
	b := newBedAt(t, sharedURI)
	t.Cleanup(func() { _ = b.db.Drop(context.Background()) })
	q := queue.Open(b.db, "fairlock.", true)
	names := 0
	rapid.Check(t, func(rt *rapid.T) {
		ctx, cancel := context.WithTimeout(context.Background(), limit) // of one sequence: how many there are is rapid's affair
		defer cancel()
		names++
		name := fmt.Sprint("lock ", names)
		kind := rapid.SampledFrom([]queue.Kind{"test", queue.KindSemaphore}).Draw(rt, "kind")
		shape := queue.Shape{Kind: kind, Permits: rapid.Int64Range(1, 5).Draw(rt, "permits")}
		units := rapid.Int64Range(1, shape.Permits)
		var ref *queue.Reference
		var issued []queue.Range
		var lastArrival queue.Arrival
		var lastPlace queue.Place
		marks := int64(0)
		arrival := func(units int64) queue.Arrival {
			marks++ // each arrival has its own
			return queue.Arrival{Owner: rapid.Uint64().Draw(rt, "owner"), Mark: marks, Units: units, Grace: time.Second}
		}
		begin := func(p queue.Place, a queue.Arrival) {
			lastArrival, lastPlace = a, p
			if ref == nil {
				ref = queue.NewReference(shape, p.Lo-1)
			}
		}
		check := func() {
			if ref == nil {
				return
			}
			v, found, err := q.View(ctx, name)
			require.NoError(rt, err)
			require.True(rt, found)
			done := ref.Done
			if len(done) == 0 {
				done = []queue.Range{}
			}
			require.Equal(rt, []any{ref.Issued, ref.Settled, ref.Frontier, ref.Arrivals, ref.Reached, ref.Calls, done, ref.Idle, ref.Permits, ref.Managed},
				[]any{v.Issued, v.Settled, v.Frontier, v.Arrivals, v.Reached, v.Calls, v.Done, v.IdleSince != nil, v.Permits, v.Managed})
		}
		enqueue := func(rt *rapid.T) {
			a := arrival(units.Draw(rt, "units"))
			p, err := q.Enqueue(ctx, name, shape, a)
			require.NoError(rt, err)
			begin(p, a)
			require.Equal(rt, ref.Enqueue(a.Units), p.Range)
			require.Equal(rt, ref.Arrivals, p.Arrival)
			issued = append(issued, p.Range)
			check()
		}
		enqueue(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"enqueue": enqueue,
			"enqueue within a limit": func(rt *rapid.T) {
				a := arrival(units.Draw(rt, "units"))
				a.Limit = rapid.Int64Range(1, 12).Draw(rt, "limit")
				p, err := q.Enqueue(ctx, name, shape, a)
				r, want := ref.EnqueueWithin(a.Units, a.Limit)
				if !want {
					var full *queue.TooManyWaitersError
					require.ErrorAs(rt, err, &full)
					v, _, err := q.View(ctx, name)
					require.NoError(rt, err)
					require.Equal(rt, max(v.Excess(), 0), full.Waiting)
					require.Less(rt, full.Room, a.Units)
					require.Equal(rt, max(a.Limit-v.Excess(), 0), full.Room)
					check()
					return
				}
				require.NoError(rt, err)
				begin(p, a)
				require.Equal(rt, r, p.Range)
				issued = append(issued, r)
				check()
			},
			"try": func(rt *rapid.T) {
				a := arrival(units.Draw(rt, "units"))
				a.Weight = a.Units
				p, admitted, err := q.Try(ctx, name, shape, a)
				if kind == queue.KindSemaphore && a.Weight > ref.Permits {
					var big *queue.TooBigError
					require.ErrorAs(rt, err, &big)
					require.Equal(rt, queue.TooBigError{Name: name, Units: a.Weight, Permits: ref.Permits}, *big)
					check()
					return
				}
				require.NoError(rt, err)
				r, want := ref.Try(a.Units)
				require.Equal(rt, want, admitted)
				if admitted {
					begin(p, a)
					require.Equal(rt, r, p.Range)
					require.True(rt, p.View.Admits(p.Range))
					issued = append(issued, r)
				}
				check()
			},
			"repeat": func(rt *rapid.T) {
				p, err := q.Enqueue(ctx, name, shape, lastArrival)
				require.NoError(rt, err)
				require.Equal(rt, lastPlace.Range, p.Range)
				require.Equal(rt, lastPlace.Arrival, p.Arrival)
				check()
			},
			"settle": func(rt *rapid.T) {
				var ranges []queue.Range
				for range rapid.IntRange(1, 3).Draw(rt, "ranges") {
					r := rapid.SampledFrom(issued).Draw(rt, "range")
					lo := rapid.Int64Range(r.Lo, r.Hi).Draw(rt, "lo")
					ranges = append(ranges, queue.Range{Lo: lo, Hi: rapid.Int64Range(lo, r.Hi).Draw(rt, "hi")})
				}
				at := rapid.Int64Range(0, ref.Arrivals).Draw(rt, "arrival")
				fresh, err := q.Settle(ctx, name, ranges, at)
				require.NoError(rt, err)
				require.Equal(rt, ref.Settle(ranges, at), fresh, "settle %v of %+v", ranges, ref)
				check()
			},
			"settle front": func(rt *rapid.T) {
				r := rapid.SampledFrom(issued).Draw(rt, "range")
				r.Hi = rapid.Int64Range(r.Lo, r.Hi).Draw(rt, "hi")
				at := rapid.Int64Range(0, ref.Arrivals).Draw(rt, "arrival")
				if ref.Managed {
					return // for mutexes only
				}
				front := ref.Settled == r.Lo-1 && len(ref.Done) == 0
				done, err := q.SettleFront(ctx, name, shape, r, at)
				require.NoError(rt, err)
				require.Equal(rt, front, done)
				if done {
					require.True(rt, ref.Settle([]queue.Range{r}, at))
				}
				check()
			},
			"other shape": func(rt *rapid.T) {
				other := queue.Shape{Kind: shape.Kind, Permits: shape.Permits + 1}
				if ref.Managed {
					return
				}
				_, err := q.Enqueue(ctx, name, other, arrival(1))
				require.ErrorIs(rt, err, queue.ErrMismatch)
				check()
			},
			"set permits": func(rt *rapid.T) {
				permits := rapid.Int64Range(1, 6).Draw(rt, "permits")
				err := q.SetPermits(ctx, name, permits)
				if kind != queue.KindSemaphore {
					require.ErrorIs(rt, err, queue.ErrMismatch)
				} else {
					require.NoError(rt, err)
					ref.SetPermits(permits)
				}
				check()
			},
			"force": func(rt *rapid.T) {
				r := rapid.SampledFrom(issued).Draw(rt, "range")
				passed := rapid.Int64Range(0, min(2, r.Lo-issued[0].Lo)).Draw(rt, "passed")
				done, err := q.Force(ctx, name, passed, r, queue.Forced{Token: r.Lo, Session: "$s", By: "$b", Reason: "$r"})
				require.NoError(rt, err)
				require.Equal(rt, ref.Force(passed, r), done, "force %v of %+v", r, ref)
				if done {
					v, _, err := q.View(ctx, name)
					require.NoError(rt, err)
					last := v.Audit[len(v.Audit)-1]
					require.LessOrEqual(rt, len(v.Audit), 16)
					require.Equal(rt, []any{r.Lo, "$s", "$b", "$r"}, []any{last.Token, last.Session, last.By, last.Reason})
					require.Equal(rt, r.Lo, v.Forced)
				}
				check()
			},
			"request": func(rt *rapid.T) {
				noted, err := q.RequestRelease(ctx, name, "$by")
				require.NoError(rt, err)
				require.Equal(rt, ref.Settled < ref.Issued, noted)
				if noted {
					v, _, err := q.View(ctx, name)
					require.NoError(rt, err)
					require.Equal(rt, []any{"$by", min(ref.Frontier, ref.Issued)}, []any{v.Request.By, v.Request.UpTo})
				}
				check()
			},
		})
	})
}

// TestSettleNeverMakesADocument: a lock document that is gone is a lock that is gone.
func TestSettleNeverMakesADocument(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	q := queue.Open(b.db, "fairlock.", true)
	fresh, err := q.Settle(ctx, "x", []queue.Range{{Lo: 1, Hi: 2}}, 0)
	require.NoError(t, err)
	require.False(t, fresh)
	gone, err := q.Gone(ctx, "x")
	require.NoError(t, err)
	require.True(t, gone)
}

// TestNumbersGoOnAfterDrop: a document made anew starts above all numbers of the old one (I5).
func TestNumbersGoOnAfterDrop(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	q := queue.Open(b.db, "fairlock.", true)
	var last int64
	for i := range int64(5) {
		p, err := q.Enqueue(ctx, "x", queue.Mutex, queue.Arrival{Mark: i, Units: 1, Grace: time.Second})
		require.NoError(t, err)
		require.Greater(t, p.Lo, last)
		last = p.Hi
		require.NoError(t, b.coll("locks").Drop(ctx))
	}
}

// TestTicketsAndTombstones: the unique _id decides between an owner and a reaper (I3).
func TestTicketsAndTombstones(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	q := queue.Open(b.db, "fairlock.", true)
	mine := queue.Ticket{ID: queue.TicketID{Lock: "x", Lo: 10}, Hi: 12, Session: "s", Weight: 1, Labels: []string{"$x", "a.b"}}
	for range 2 {
		require.NoError(t, q.PutTicket(ctx, mine, time.Second), "may be repeated")
	}
	// The range [10,12] has its ticket at 10: tombstones at 11 and 12 must not settle what it covers.
	dead, err := q.Bury(ctx, "x", []queue.Range{{Lo: 9, Hi: 14}})
	require.NoError(t, err)
	require.Equal(t, []queue.Range{{Lo: 9, Hi: 9}, {Lo: 13, Hi: 14}}, dead)
	late := queue.Ticket{ID: queue.TicketID{Lock: "x", Lo: 13}, Hi: 14, Session: "late", Weight: 1}
	require.ErrorIs(t, q.PutTicket(ctx, late, 0), queue.ErrTombstone)
	all, err := q.Tickets(ctx, "x", 100, 100)
	require.NoError(t, err)
	var ids []queue.TicketID
	for _, k := range all {
		ids = append(ids, k.ID)
		if k.ID.Lo == 10 {
			require.Equal(t, []string{"$x", "a.b"}, k.Labels)
			require.False(t, k.Tomb)
		} else {
			require.True(t, k.Tomb)
		}
	}
	require.Len(t, ids, 6)
	require.NoError(t, q.DropTickets(ctx, ids))
}

// TestSettleOfSettledAndNext: a range that is settled already, together with one that touches settled.
func TestSettleOfSettledAndNext(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	q := queue.Open(b.db, "fairlock.", true)
	p, err := q.Enqueue(ctx, "x", queue.Mutex, queue.Arrival{Mark: 1, Units: 7, Grace: time.Second})
	require.NoError(t, err)
	for _, ranges := range [][]queue.Range{{{Lo: p.Lo, Hi: p.Lo + 5}}, {{Lo: p.Lo, Hi: p.Lo}, {Lo: p.Hi, Hi: p.Hi}}} {
		_, err := q.Settle(ctx, "x", ranges, 0)
		require.NoError(t, err)
	}
}

// TestCollect deletes idle documents of the day before yesterday, and no others.
func TestCollect(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	q := queue.Open(b.db, "fairlock.", true)
	var last int64
	for i, name := range []string{"old", "young", "held"} {
		p, err := q.Enqueue(ctx, name, queue.Mutex, queue.Arrival{Mark: int64(i), Units: 1, Grace: time.Second})
		require.NoError(t, err)
		if name == "old" {
			last = p.Hi
		}
		if name != "held" {
			_, err = q.Settle(ctx, name, []queue.Range{p.Range}, p.Arrival)
			require.NoError(t, err)
		}
	}
	_, err := b.coll("locks").UpdateByID(ctx, "old", bson.D{{Key: "$set", Value: bson.D{{Key: "idleSince", Value: time.Now().Add(-48 * time.Hour)}}}})
	require.NoError(t, err)
	require.NoError(t, q.Collect(ctx))
	for name, gone := range map[string]bool{"old": true, "young": false, "held": false} {
		_, found, err := q.View(ctx, name)
		require.NoError(t, err)
		require.Equal(t, !gone, found, name)
	}
	p, err := q.Enqueue(ctx, "old", queue.Mutex, queue.Arrival{Mark: 9, Units: 1, Grace: time.Second})
	require.NoError(t, err)
	require.Greater(t, p.Lo, last, "tokens go on")
	for _, name := range []string{"old", "held"} {
		v, _, err := q.View(ctx, name)
		require.NoError(t, err)
		_, err = q.Settle(ctx, name, []queue.Range{{Lo: v.Issued, Hi: v.Issued}}, 1)
		require.NoError(t, err)
	}
}
