package reaper_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
)

func TestEndsASessionOnlyAfterItsFullTTLSeenUnchanged(t *testing.T) {
	bubble(t, func(b *bed) {
		b.begin("dead")
		first, second := b.place(name, "dead"), b.place(name, "dead")
		other := b.place("another lock", "dead")
		b.enqueue(name, 1) // somebody waits
		r := b.reaper()

		time.Sleep(5 * time.Second)
		soon, err := r.Examine(b.ctx, behind(second))
		require.NoError(b.t, err)
		require.Equal(b.t, ttl, soon, "when it will be ripe")
		time.Sleep(ttl - time.Millisecond)
		require.True(b.t, b.clk.Wall().After(b.expiry("dead")), "over by the server's clock for a while")
		soon, err = r.Examine(b.ctx, behind(second))
		require.NoError(b.t, err)
		require.Equal(b.t, time.Millisecond, soon)
		require.False(b.t, b.isEnded("dead"))

		time.Sleep(time.Millisecond)
		_, err = r.Examine(b.ctx, behind(second))
		require.NoError(b.t, err)
		require.True(b.t, b.isEnded("dead"))
		require.True(b.t, b.settled(name, first) && b.settled(name, second))
		require.True(b.t, b.settled("another lock", other), "all that the session had")
		require.Empty(b.t, b.srv.Tickets())
		require.Equal(b.t, 2, b.Calls(memstore.OpSettle), "one for each lock")
		require.EqualValues(b.t, 1, r.Counts().SessionsEnded.Load())
		require.EqualValues(b.t, 3, r.Counts().TicketsCleared.Load())
		s, _ := b.srv.Session("dead")
		require.True(b.t, s.Cleared)
	})
}

func (b *bed) expiry(id string) time.Time {
	s, found := b.srv.Session(id)
	require.True(b.t, found)
	return s.ExpiresAt
}

// TestTheServersClockMustAgree, and is not enough: it jumps with the primary.
func TestTheServersClockMustAgree(t *testing.T) {
	bubble(t, func(b *bed) {
		b.begin("dead")
		p := b.place(name, "dead")
		r := b.reaper()
		look := func() bool {
			_, err := r.Examine(b.ctx, behind(p))
			require.NoError(b.t, err)
			return b.isEnded("dead")
		}
		b.ahead.Store(int64(time.Hour))
		require.False(b.t, look(), "ahead")
		time.Sleep(ttl - time.Millisecond)
		require.False(b.t, look(), "ahead")
		b.ahead.Store(int64(-5 * time.Second))
		time.Sleep(time.Millisecond)
		require.False(b.t, look(), "ripe here, and not over by the server's clock")
		time.Sleep(5 * time.Second)
		require.False(b.t, look(), "exactly over is not over")
		time.Sleep(time.Millisecond)
		require.True(b.t, look())
	})
}

// TestAClockSetBackKeepsTheDeadForOneTTLAtMost: what the old clock wrote says nothing on the new one.
func TestAClockSetBackKeepsTheDeadForOneTTLAtMost(t *testing.T) {
	for _, back := range []time.Duration{time.Second, ttl - time.Second, 45 * time.Second, time.Hour} {
		t.Run(back.String(), func(t *testing.T) {
			bubble(t, func(b *bed) {
				b.begin("dead")
				p := b.place(name, "dead")
				b.ahead.Store(int64(-back))
				r := b.reaper()
				began := time.Now()
				for !b.isEnded("dead") {
					soon, err := r.Examine(b.ctx, behind(p))
					require.NoError(b.t, err)
					time.Sleep(max(soon, time.Millisecond))
				}
				took := time.Since(began)
				require.GreaterOrEqual(b.t, took, ttl)
				require.Less(b.t, took, 2*ttl+time.Second)
			})
		})
	}
}

func TestALivingSessionIsLeftAlone(t *testing.T) {
	bubble(t, func(b *bed) {
		b.lease() // renews "s"
		p := b.place(name, "s")
		r := b.reaper()
		for range 100 {
			_, err := r.Examine(b.ctx, behind(p))
			require.NoError(b.t, err)
			time.Sleep(r.Tick())
		}
		require.False(b.t, b.isEnded("s"))
		require.Zero(b.t, b.Calls(memstore.OpEndSession))
		require.Zero(b.t, b.Calls(memstore.OpSettle))
	})
}

// TestStaleReadsNeverKill: a reaper that reads from a server that is no longer the primary sees a beat stand still.
func TestStaleReadsNeverKill(t *testing.T) {
	bubble(t, func(b *bed) {
		other := b.srv.Client()
		b.begin("alive")
		p := b.place(name, "alive")
		r := b.reaper()
		b.Freeze()
		for range 40 {
			_, err := r.Examine(b.ctx, behind(p))
			require.NoError(b.t, err)
			require.NoError(b.t, failure(other.Sessions().Renew(b.ctx, "alive", ttl)))
			time.Sleep(r.Tick())
		}
		require.Positive(b.t, b.Calls(memstore.OpEndSession), "it tried")
		require.False(b.t, b.isEnded("alive"))
		require.False(b.t, b.settled(name, p))
		require.Zero(b.t, r.Counts().SessionsEnded.Load())
	})
}

// TestStaleReadsBuryNothing: the tickets that a stale server does not show are met by the tombstones and by the second read.
func TestStaleReadsBuryNothing(t *testing.T) {
	bubble(t, func(b *bed) {
		other := b.srv.Client()
		p := b.enqueue(name, 3)
		b.Freeze()
		require.NoError(b.t, other.Queue().PutTicket(b.ctx, ticketOf(name, p, "alive"), 0))
		r := b.reaper()
		for range 2 {
			_, err := r.Examine(b.ctx, behind(p))
			require.NoError(b.t, err)
			time.Sleep(ttl)
		}
		require.Equal(b.t, 1, b.Calls(memstore.OpBury))
		require.Zero(b.t, b.Calls(memstore.OpSettle))
		require.Zero(b.t, r.Counts().OrphansBuried.Load())
		v, _ := b.srv.Lock(name)
		require.Equal(b.t, p.Lo-1, v.Settled)
	})
}

func TestOrphanNumbersNeedAFullGrace(t *testing.T) {
	for _, grace := range []time.Duration{ttl, 3 * ttl} { // of whoever has numbers there, not of the reaper
		t.Run(grace.String(), func(t *testing.T) {
			bubble(t, func(b *bed) {
				p, err := b.Queue().Enqueue(b.ctx, name, queue.Mutex, queue.Arrival{Mark: -1, Units: 3, Grace: grace})
				require.NoError(b.t, err)
				waits := b.place(name, "alive")
				b.begin("alive")
				r := b.reaper()
				soon, err := r.Examine(b.ctx, behind(p))
				require.NoError(b.t, err)
				require.Equal(b.t, grace, soon)
				time.Sleep(grace - time.Millisecond)
				soon, err = r.Examine(b.ctx, behind(p))
				require.NoError(b.t, err)
				require.Equal(b.t, time.Millisecond, soon)
				require.Len(b.t, b.srv.Tickets(), 1)
				time.Sleep(soon)
				_, err = r.Examine(b.ctx, behind(p))
				require.NoError(b.t, err)
				require.True(b.t, b.settled(name, p))
				require.False(b.t, b.settled(name, waits))
				require.Equal(b.t, 1, b.Calls(memstore.OpSettle), "as one run")
				require.EqualValues(b.t, 3, r.Counts().OrphansBuried.Load())
				require.Len(b.t, b.srv.Tickets(), 1, "the tombstones are taken away")
			})
		})
	}
}

func TestATicketInTimePreventsTheBurial(t *testing.T) {
	bubble(t, func(b *bed) {
		b.begin("late")
		p := b.enqueue(name, 2)
		r := b.reaper()
		_, err := r.Examine(b.ctx, behind(p))
		require.NoError(b.t, err)
		time.Sleep(ttl - time.Millisecond)
		require.NoError(b.t, b.ticket(name, p, "late"))
		require.NoError(b.t, failure(b.Sessions().Renew(b.ctx, "late", ttl)))
		time.Sleep(time.Millisecond)
		_, err = r.Examine(b.ctx, behind(p))
		require.NoError(b.t, err)
		require.Zero(b.t, b.Calls(memstore.OpBury))
		require.False(b.t, b.settled(name, p))
	})
}

// TestTheTombstoneDecides between a late owner and the reaper, whichever comes first.
func TestTheTombstoneDecides(t *testing.T) {
	for _, c := range []struct {
		name   string
		at     memstore.Op
		owners bool
	}{{"owner first", memstore.OpBury, true}, {"tombstone first", memstore.OpBuryRead, false}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bed) {
				owner := b.srv.Client()
				p := b.enqueue(name, 2)
				r := b.reaper()
				_, err := r.Examine(b.ctx, behind(p))
				require.NoError(b.t, err)
				time.Sleep(ttl)
				var put error
				b.Hook(memstore.Before, c.at, func(ctx context.Context, _ string) error {
					put = owner.Queue().PutTicket(ctx, ticketOf(name, p, "owner"), 0)
					return nil
				})
				_, err = r.Examine(b.ctx, behind(p))
				require.NoError(b.t, err)
				if c.owners {
					require.NoError(b.t, put)
					require.False(b.t, b.settled(name, p), "all of the range is covered, also where a tombstone stands")
				} else {
					require.ErrorIs(b.t, put, queue.ErrTombstone)
					require.True(b.t, b.settled(name, p))
				}
			})
		})
	}
}

// TestTombstonesLeftByOthersAreFinished: another reaper died between its tombstones and the settle.
func TestTombstonesLeftByOthersAreFinished(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.enqueue(name, 2)
		_, err := b.srv.Client().Queue().Bury(b.ctx, name, []queue.Range{p.Range})
		require.NoError(b.t, err)
		_, err = b.reaper().Examine(b.ctx, behind(p))
		require.NoError(b.t, err)
		require.True(b.t, b.settled(name, p), "at the first look: they were written after a grace")
		require.Empty(b.t, b.srv.Tickets())
	})
}

func TestSessionWithoutADocument(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.place(name, "vanished")
		r := b.reaper()
		soon, err := r.Examine(b.ctx, behind(p))
		require.NoError(b.t, err)
		require.Equal(b.t, ttl, soon)
		time.Sleep(ttl - time.Millisecond)
		_, err = r.Examine(b.ctx, behind(p))
		require.NoError(b.t, err)
		require.Zero(b.t, b.Calls(memstore.OpBurySession))
		time.Sleep(time.Millisecond)
		_, err = r.Examine(b.ctx, behind(p))
		require.NoError(b.t, err)
		require.True(b.t, b.isEnded("vanished"), "evidence, for its owner too")
		require.ErrorIs(b.t, b.Sessions().Begin(b.ctx, reaper.Session{ID: "vanished", TTLMS: 1000}), reaper.ErrEnded)
		require.True(b.t, b.settled(name, p))
	})
}

func TestSessionThatIsThereAfterAll(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.place(name, "s")
		r := b.reaper()
		_, err := r.Examine(b.ctx, behind(p))
		require.NoError(b.t, err)
		time.Sleep(ttl)
		other := b.srv.Client()
		b.Hook(memstore.Before, memstore.OpBurySession, func(ctx context.Context, _ string) error {
			return other.Sessions().Begin(ctx, reaper.Session{ID: "s", TTLMS: ttl.Milliseconds()})
		})
		_, err = r.Examine(b.ctx, behind(p))
		require.NoError(b.t, err)
		require.Equal(b.t, 1, b.Calls(memstore.OpBurySession))
		require.False(b.t, b.isEnded("s"))
		require.False(b.t, b.settled(name, p))
	})
}

func TestGarbageIsDropped(t *testing.T) {
	bubble(t, func(b *bed) {
		b.begin("s")
		first, p, last := b.place(name, "s"), b.place(name, "s"), b.place(name, "s")
		late := b.enqueue(name, 1)
		for _, done := range []queue.Place{first, last} { // last out of order
			_, err := b.Queue().Settle(b.ctx, name, []queue.Range{done.Range}, done.Arrival)
			require.NoError(b.t, err)
		}
		_, err := b.reaper().Examine(b.ctx, behind(late))
		require.NoError(b.t, err)
		require.Len(b.t, b.srv.Tickets(), 1)
		require.Equal(b.t, p.Lo, b.srv.Tickets()[0].ID.Lo)
	})
}

// TestQuietLooksAreCheap: a queue that does not move is one read of the lock and one of the sessions.
func TestQuietLooksAreCheap(t *testing.T) {
	bubble(t, func(b *bed) {
		b.lease()
		p := b.place(name, "s")
		r := b.reaper()
		for range 20 {
			_, err := r.Examine(b.ctx, behind(p))
			require.NoError(b.t, err)
		}
		require.Equal(b.t, 4, b.Calls(memstore.OpTickets))
		require.Equal(b.t, 20, b.Calls(memstore.OpView))
		require.Equal(b.t, 20, b.Calls(memstore.OpGetSessions))
	})
}

func TestNothingAheadNothingToDo(t *testing.T) {
	bubble(t, func(b *bed) {
		_, err := b.reaper().Examine(b.ctx, reaper.Target{Name: "unheard of", Below: 5})
		require.NoError(b.t, err)
		p := b.enqueue(name, 1)
		_, err = b.reaper().Examine(b.ctx, reaper.Target{Name: name, Below: p.Lo})
		require.NoError(b.t, err)
		require.Zero(b.t, b.Calls(memstore.OpTickets))
	})
}

// TestFailuresKeepTheEvidence: what was seen before an outage counts after it.
func TestFailuresKeepTheEvidence(t *testing.T) {
	bubble(t, func(b *bed) {
		b.begin("dead")
		p := b.place(name, "dead")
		r := b.reaper()
		_, err := r.Examine(b.ctx, behind(p))
		require.NoError(b.t, err)
		restore := b.Hook(memstore.Before, memstore.OpAny, memstore.Fail(1000, memstore.ErrNoReply))
		time.Sleep(ttl)
		_, err = r.Examine(b.ctx, behind(p))
		require.ErrorIs(b.t, err, memstore.ErrNoReply)
		restore()
		time.Sleep(time.Millisecond)
		_, err = r.Examine(b.ctx, behind(p))
		require.NoError(b.t, err)
		require.True(b.t, b.settled(name, p))
	})
}

// TestLostRepliesAreMadeGood: whichever reply is lost, the next look finishes the work.
func TestLostRepliesAreMadeGood(t *testing.T) {
	for _, op := range []memstore.Op{
		memstore.OpEndSession, memstore.OpSettle, memstore.OpDropTickets, memstore.OpBury, memstore.OpBuryRead, memstore.OpMarkCleared,
	} {
		t.Run(string(op), func(t *testing.T) {
			bubble(t, func(b *bed) {
				b.begin("dead")
				b.enqueue(name, 2) // orphans
				p := b.place(name, "dead")
				r := b.reaper()
				_, _ = r.Examine(b.ctx, behind(p))
				time.Sleep(ttl + time.Millisecond)
				b.Hook(memstore.After, op, memstore.Fail(1, memstore.ErrNoReply))
				for range 4 {
					_, _ = r.Examine(b.ctx, behind(p))
				}
				require.True(b.t, b.settled(name, p))
				require.Empty(b.t, b.srv.Unrest())
			})
		})
	}
}
