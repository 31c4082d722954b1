package memstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
	"github.com/fairlock/fairlock/waiter"
)

// TestAgainstReference is TestPipelinesAgreeWithReference of package integration, on this store.
func TestAgainstReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		srv := memstore.New(time.Now)
		q := srv.Client().Queue()
		shape := queue.Shape{Kind: "test", Permits: rapid.Int64Range(1, 5).Draw(rt, "permits")}
		units := rapid.Int64Range(1, shape.Permits)
		var ref *queue.Reference
		var issued []queue.Range
		var last queue.Arrival
		var place queue.Place
		marks := int64(0)
		arrival := func(units int64) queue.Arrival {
			marks++
			return queue.Arrival{Owner: rapid.Uint64().Draw(rt, "owner"), Mark: marks, Units: units, Grace: time.Second}
		}
		enqueue := func(rt *rapid.T) {
			a := arrival(units.Draw(rt, "units"))
			p, err := q.Enqueue(ctx, "x", shape, a)
			require.NoError(rt, err)
			if ref == nil {
				ref = queue.NewReference(shape, p.Lo-1)
			}
			require.Equal(rt, ref.Enqueue(a.Units), p.Range)
			require.Equal(rt, ref.Arrivals, p.Arrival)
			issued, last, place = append(issued, p.Range), a, p
		}
		enqueue(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				v, found := srv.Lock("x")
				require.True(rt, found)
				require.Equal(rt, []any{ref.Issued, ref.Settled, ref.Frontier, ref.Arrivals, ref.Reached, ref.Calls, ref.Done, ref.Idle},
					[]any{v.Issued, v.Settled, v.Frontier, v.Arrivals, v.Reached, v.Calls, v.Done, v.IdleSince != nil})
			},
			"enqueue": enqueue,
			"try": func(rt *rapid.T) {
				a := arrival(units.Draw(rt, "units"))
				p, admitted, err := q.Try(ctx, "x", shape, a)
				require.NoError(rt, err)
				r, want := ref.Try(a.Units)
				require.Equal(rt, want, admitted)
				if admitted {
					require.Equal(rt, r, p.Range)
					issued, last, place = append(issued, r), a, p
				}
			},
			"repeat": func(rt *rapid.T) {
				p, err := q.Enqueue(ctx, "x", shape, last)
				require.NoError(rt, err)
				require.Equal(rt, place.Range, p.Range)
				require.Equal(rt, place.Arrival, p.Arrival)
			},
			"settle": func(rt *rapid.T) {
				r := rapid.SampledFrom(issued).Draw(rt, "range")
				fresh, err := q.Settle(ctx, "x", []queue.Range{r}, 1)
				require.NoError(rt, err)
				require.Equal(rt, ref.Settle([]queue.Range{r}, 1), fresh)
			},
			"settle front": func(rt *rapid.T) {
				r := rapid.SampledFrom(issued).Draw(rt, "range")
				front := ref.Settled == r.Lo-1 && len(ref.Done) == 0
				done, err := q.SettleFront(ctx, "x", shape, r, 1)
				require.NoError(rt, err)
				require.Equal(rt, front, done)
				if done {
					require.True(rt, ref.Settle([]queue.Range{r}, 1))
				}
			},
			"other shape": func(rt *rapid.T) {
				_, err := q.Enqueue(ctx, "x", queue.Shape{Kind: "other", Permits: shape.Permits}, arrival(1))
				require.ErrorIs(rt, err, queue.ErrMismatch)
			},
		})
	})
}

func enqueue(t *testing.T, c *memstore.Client, mark int64) queue.Place {
	t.Helper()
	p, err := c.Queue().Enqueue(t.Context(), "x", queue.Mutex, queue.Arrival{Mark: mark, Units: 1, Grace: time.Second})
	require.NoError(t, err)
	return p
}

func TestNumbersGoOnAfterADrop(t *testing.T) {
	t.Parallel()
	wall := time.UnixMilli(1e12)
	srv := memstore.New(func() time.Time { return wall })
	c := srv.Client()
	first := enqueue(t, c, 1)
	require.Equal(t, int64(1e12*1024)+1, first.Lo)
	srv.DropLock("x")
	wall = wall.Add(time.Millisecond)
	second := enqueue(t, c, 2)
	require.Greater(t, second.Lo, first.Lo)
	srv.DropLocks()
	wall = wall.Add(-time.Hour)
	require.GreaterOrEqual(t, enqueue(t, c, 3).Lo, second.Lo, "the cluster's time does not go back")
}

func TestHooks(t *testing.T) {
	t.Parallel()
	c := memstore.New(time.Now).Client()
	removeBefore := c.Hook(memstore.Before, memstore.OpEnqueue, memstore.Fail(1, memstore.ErrNoReply))
	a := queue.Arrival{Mark: 1, Units: 1}
	_, err := c.Queue().Enqueue(t.Context(), "x", queue.Mutex, a)
	require.ErrorIs(t, err, memstore.ErrNoReply)
	_, found, _ := c.Queue().View(t.Context(), "x")
	require.False(t, found, "not done")
	removeBefore()
	c.Hook(memstore.After, memstore.OpAny, memstore.Fail(1, memstore.ErrNoReply))
	_, err = c.Queue().Enqueue(t.Context(), "x", queue.Mutex, a)
	require.ErrorIs(t, err, memstore.ErrNoReply)
	v, found, _ := c.Queue().View(t.Context(), "x")
	require.True(t, found, "done")
	require.EqualValues(t, 1, v.Arrivals)
	require.Equal(t, 2, c.Calls(memstore.OpEnqueue))

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Queue().Enqueue(ended, "x", queue.Mutex, a)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, c.Calls(memstore.OpEnqueue))
	c.Hook(memstore.Before, memstore.OpView, memstore.NewGate().Pass)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, _, err = c.Queue().View(short, "x")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestFreeze: what an old primary answers, and what it cannot.
func TestFreeze(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	srv := memstore.New(time.Now)
	stale, c := srv.Client(), srv.Client()
	require.NoError(t, c.Sessions().Begin(ctx, reaper.Session{ID: "old", TTLMS: 1000}))
	p := enqueue(t, c, 1)
	stale.Freeze()
	require.NoError(t, c.Sessions().Begin(ctx, reaper.Session{ID: "new", TTLMS: 1000}))
	late := enqueue(t, c, 2)
	_, err := c.Queue().Settle(ctx, "x", []queue.Range{p.Range}, 1)
	require.NoError(t, err)

	v, _, err := stale.Queue().View(ctx, "x")
	require.NoError(t, err)
	require.Equal(t, p.Hi, v.Issued, "reads are old")
	require.ErrorIs(t, failure(stale.Sessions().Renew(ctx, "new", time.Second)), reaper.ErrEnded, "a write that changes nothing is answered")
	fresh, err := stale.Queue().Settle(ctx, "x", []queue.Range{late.Range}, 2)
	require.NoError(t, err)
	require.False(t, fresh, "not issued, there")
	require.NoError(t, failure(stale.Sessions().Renew(ctx, "old", time.Second)), "one that does goes to the primary")
	s, _ := srv.Session("old")
	require.EqualValues(t, 2, s.Beat)
	fresh, err = stale.Queue().Settle(ctx, "x", []queue.Range{late.Range}, 2)
	require.NoError(t, err)
	require.True(t, fresh, "and so do all after it")
	v, _, err = stale.Queue().View(ctx, "x")
	require.NoError(t, err)
	require.Equal(t, p.Hi, v.Issued, "reads are old still")
	fresh, err = stale.Queue().Settle(ctx, "x", []queue.Range{p.Range}, 1)
	require.NoError(t, err)
	require.False(t, fresh, "settled meanwhile")
	srv.DropLock("x")
	gone, err := stale.Queue().Gone(ctx, "x")
	require.NoError(t, err)
	require.True(t, gone, "linearizable")
	stale.Thaw()
	_, found, _ := stale.Queue().View(ctx, "x")
	require.False(t, found)
}

func TestStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		srv := memstore.New(time.Now)
		c, other := srv.Client(), srv.Client()
		first, second, third := enqueue(t, other, 1), enqueue(t, other, 2), enqueue(t, other, 3)
		settle := func(p queue.Place) {
			_, err := other.Queue().Settle(ctx, "x", []queue.Range{p.Range}, p.Arrival)
			require.NoError(t, err)
		}
		o, err := c.Source().Begin(ctx)
		require.NoError(t, err)
		settle(first)
		views, err := o.Views(ctx, []string{"x", "y"})
		require.NoError(t, err)
		require.Len(t, views, 1)
		require.Equal(t, first.Hi, views[0].Frontier, "the state at the beginning")
		s, err := o.Open(ctx, time.Second, nil)
		require.NoError(t, err)
		o.End()
		require.Equal(t, 1, c.Taps())

		next := func() []waiter.Event {
			events, err := s.Next(ctx)
			require.NoError(t, err)
			return events
		}
		require.Equal(t, []waiter.Event{{Name: "x", Settled: first.Hi, Frontier: second.Hi}}, next(), "all that came after the beginning")
		began := time.Now()
		require.Empty(t, next())
		require.Equal(t, time.Second, time.Since(began))
		c.Deliver(func(waiter.Event) int { return 2 })
		go settle(second)
		require.Len(t, next(), 2)
		c.Deliver(func(waiter.Event) int { return 0 })
		settle(third)
		require.Empty(t, next())
		c.Deliver(nil)
		srv.DropLock("x")
		require.Equal(t, []waiter.Event{{Name: "x", Deleted: true}}, next())
		srv.DropLocks()
		_, err = s.Next(ctx)
		require.ErrorIs(t, err, memstore.ErrInvalidated)
		_, err = s.Next(ctx)
		require.ErrorIs(t, err, memstore.ErrInvalidated, "dead for good")
		s.Close(ctx)
		require.Zero(t, c.Taps())

		o, err = c.Source().Begin(ctx)
		require.NoError(t, err)
		o.End()
		require.Zero(t, c.Taps(), "an opening that came to nothing")
	})
}

func TestTicketsAreDroppedOnlyWhenSettled(t *testing.T) {
	t.Parallel()
	c := memstore.New(time.Now).Client()
	p := enqueue(t, c, 1)
	id := queue.TicketID{Lock: "x", Lo: p.Lo}
	require.NoError(t, c.Queue().PutTicket(t.Context(), queue.Ticket{ID: id, Hi: p.Hi, Session: "s", Weight: 1}, 0))
	require.Panics(t, func() { _ = c.Queue().DropTickets(t.Context(), []queue.TicketID{id}) })
	_, err := c.Queue().Settle(t.Context(), "x", []queue.Range{p.Range}, 1)
	require.NoError(t, err)
	require.NoError(t, c.Queue().DropTickets(t.Context(), []queue.TicketID{id}))
}

func TestClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := memstore.NewClock()
		before, wall := c.Now(), c.Wall()
		require.Positive(t, before)
		time.Sleep(time.Minute)
		c.Sleep(time.Hour)
		require.Equal(t, time.Hour+time.Minute, c.Now().Sub(before))
		require.Equal(t, time.Hour+time.Minute, c.Wall().Sub(wall))
	})
}
