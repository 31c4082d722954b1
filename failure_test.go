package fairlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
)

// TestEnqueueWithoutReplyIsRepeatedOnce: no second number is taken, whether it took effect or not.
func TestEnqueueWithoutReplyIsRepeatedOnce(t *testing.T) {
	for _, at := range []memstore.Point{memstore.Before, memstore.After} {
		for _, op := range []memstore.Op{memstore.OpEnqueue, memstore.OpTry} {
			t.Run(string(op)+[]string{" not done", " done"}[at], func(t *testing.T) {
				bubble(t, func(b *bed) {
					p := b.proc()
					b.unlock(p.lock("x"))
					before, calls := b.doc("x").Issued, p.store.Calls(op)
					p.store.Hook(at, op, memstore.Fail(1, memstore.ErrNoReply))
					var a *attempt
					if op == memstore.OpTry {
						a = p.beginTry("x")
					} else {
						a = p.begin("x")
					}
					l := a.grantedIn(time.Second)
					require.Equal(b.t, calls+2, p.store.Calls(op))
					require.Equal(b.t, before+1, l.Token())
					require.Equal(b.t, before+1, b.doc("x").Issued)
					b.unlock(l)
					b.requireIdle("x")
				})
			})
		}
	}
}

// TestEnqueueThatHangs: the call ends by its own deadline and is repeated, and others of the process wait for it in order.
func TestEnqueueThatHangs(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		remove := p.store.Hook(memstore.After, memstore.OpEnqueue, memstore.Hang)
		a := p.begin("x")
		second := p.begin("x")
		remove()
		require.False(b.t, a.over())
		l := a.grantedIn(p.cfg.OpTimeout + time.Second)
		b.unlock(l)
		b.unlock(second.granted())
		b.requireIdle("x")
		require.EqualValues(b.t, 2, b.doc("x").Arrivals)
	})
}

func TestSettleWithoutReply(t *testing.T) {
	for _, at := range []memstore.Point{memstore.Before, memstore.After} {
		t.Run([]string{"not done", "done"}[at], func(t *testing.T) {
			bubble(t, func(b *bed) {
				p, other := b.proc(), b.proc()
				l := p.lock("x")
				behind := other.begin("x")
				p.store.Hook(at, memstore.OpSettle, memstore.Fail(1, memstore.ErrNoReply))
				require.NoError(b.t, l.Unlock(b.ctx), "the repeat finds its own work")
				require.EqualValues(b.t, 2, p.Stats().Settles)
				b.unlock(behind.granted())
				b.requireIdle("x")
			})
		})
	}
}

// TestUnlockRunsOn: Unlock returns when its context ends, and the settle goes on.
func TestUnlockRunsOn(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := p.lock("x")
		behind := other.begin("x")
		gate := memstore.NewGate()
		p.store.Hook(memstore.Before, memstore.OpSettle, gate.Pass)
		ctx, cancel := context.WithTimeout(b.ctx, time.Second)
		defer cancel()
		require.ErrorIs(b.t, l.Unlock(ctx), context.DeadlineExceeded)
		require.ErrorIs(b.t, l.Err(), ErrUnlocked)
		gate.Open()
		b.unlock(behind.granted())
		require.NoError(b.t, l.Unlock(b.ctx), "now it is known")
		b.requireIdle("x")
	})
}

// TestLateTicketQueuesAgain: a ticket that is not acknowledged within its grace is void: a reaper may have buried the
// number by then. The waiter goes to the tail.
func TestLateTicketQueuesAgain(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := other.lock("x")
		remove := p.store.Hook(memstore.After, memstore.OpPutTicket, memstore.Hang)
		a := p.begin("x")
		first := b.doc("x").Issued
		behind := other.begin("x")
		time.Sleep(testTTL - testMargin - time.Millisecond)
		require.Zero(b.t, p.Stats().Requeued)
		remove()
		time.Sleep(2 * retryPause)
		synctest.Wait()
		require.EqualValues(b.t, 1, p.Stats().Requeued)
		require.Greater(b.t, b.doc("x").Issued, first)
		b.unlock(l)
		b.unlock(behind.granted())
		l = a.granted()
		require.Greater(b.t, l.Token(), behind.lock.Token())
		b.unlock(l)
		b.requireIdle("x")
	})
}

func TestLateTicketLosesTheLock(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		p.store.Hook(memstore.Before, memstore.OpPutTicket, memstore.Fail(1000, memstore.ErrNoReply))
		l := p.lock("x")
		ctx := l.Context()
		behind := other.begin("x")
		time.Sleep(testTTL - testMargin - time.Millisecond)
		require.NoError(b.t, l.Err())
		time.Sleep(time.Millisecond)
		b.requireLost(l.Err(), LostTicket)
		synctest.Wait()
		b.requireLost(context.Cause(ctx), LostTicket)
		b.unlock(behind.grantedIn(testMargin))
		b.requireLost(l.Unlock(b.ctx), LostTicket)
	})
}

// TestTombstoneQueuesAgain: a reaper took the number for an orphan.
func TestTombstoneQueuesAgain(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := other.lock("x")
		gate := memstore.NewGate()
		remove := p.store.Hook(memstore.Before, memstore.OpPutTicket, gate.Pass)
		a := p.begin("x")
		n := b.doc("x").Issued
		<-gate.Reached()
		_, err := other.store.Queue().Bury(b.ctx, "x", []queue.Range{{Lo: n, Hi: n}})
		require.NoError(b.t, err)
		remove()
		gate.Open()
		synctest.Wait()
		require.EqualValues(b.t, 1, p.Stats().Requeued)
		b.unlock(l)
		l = a.granted()
		require.Greater(b.t, l.Token(), n)
		b.unlock(l)
		time.Sleep(time.Second)
		b.requireIdle("x")
	})
}

// TestLockDocumentDeleted: the lock is gone with its document, for holders and waiters.
func TestLockDocumentDeleted(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		l := p.lock("x")
		a := q.begin("x")
		time.Sleep(time.Second)
		old := b.doc("x").Issued
		b.srv.DropLock("x")
		again := a.grantedIn(time.Second)
		require.Greater(b.t, again.Token(), old, "numbers go on (I5)")
		require.EqualValues(b.t, 1, q.Stats().Requeued)
		time.Sleep(testTTL)
		b.requireLost(l.Err(), LostSettled)
		b.requireLost(l.Unlock(b.ctx), LostSettled)
		b.unlock(again)
		b.requireIdle("x")
	})
}

func TestUnlockFindsTheDocumentGone(t *testing.T) {
	bubble(t, func(b *bed) {
		l := b.proc().lock("x")
		b.srv.DropLock("x")
		require.NoError(b.t, l.Err())
		b.requireLost(l.Unlock(b.ctx), LostSettled)
		b.requireLost(l.Err(), LostSettled)
	})
}

func TestCollectionDropped(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		l := p.lock("x")
		a := q.begin("x")
		time.Sleep(time.Second)
		b.srv.DropLocks()
		again := a.grantedIn(5 * time.Second)
		require.Greater(b.t, again.Token(), l.Token())
		b.unlock(again)
		b.requireLost(l.Unlock(b.ctx), LostSettled)
	})
}

// TestAnAbsenceThatIsOldIsNotBelieved: a stale server does not show the document.
func TestAnAbsenceThatIsOldIsNotBelieved(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		b.unlock(q.lock("y")) // it has a session, which the stale server knows
		q.store.Freeze()
		l := p.lock("x")
		a := q.begin("x")
		time.Sleep(3 * time.Second) // a re-check
		require.Positive(b.t, q.store.Calls(memstore.OpGone))
		require.Zero(b.t, q.Stats().Requeued)
		q.store.Thaw()
		b.unlock(l)
		b.unlock(a.granted())
		require.Zero(b.t, q.Stats().Requeued+q.Stats().Lost)
	})
}

// TestSettledByOthers: the database shows the number as settled while it is held and waited for.
func TestSettledByOthers(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		l := p.lock("x")
		a := q.begin("x")
		n := b.doc("x").Issued
		_, err := b.srv.Client().Queue().Settle(b.ctx, "x", []queue.Range{{Lo: l.Token(), Hi: n}}, 0)
		require.NoError(b.t, err)
		time.Sleep(testTTL)
		b.requireLost(l.Err(), LostSettled)
		require.EqualValues(b.t, 1, q.Stats().Requeued)
		again := a.granted()
		require.Greater(b.t, again.Token(), n)
		b.unlock(again)
		b.requireLost(l.Unlock(b.ctx), LostSettled)
		b.requireIdle("x")
	})
}

// TestTicketsDroppedAreWrittenAgain before a reaper takes the numbers for orphans.
func TestTicketsDroppedAreWrittenAgain(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		l := p.lock("x")
		a := q.begin("x")
		time.Sleep(time.Second)
		for _, k := range b.srv.Tickets() {
			b.srv.DropTicket(k.ID)
		}
		time.Sleep(3 * testTTL)
		require.NoError(b.t, l.Err())
		require.False(b.t, a.over())
		b.unlock(l)
		b.unlock(a.granted())
		b.requireIdle("x")
	})
}

func TestMismatch(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		other := queue.Shape{Kind: "other", Permits: 2}
		place, err := b.srv.Client().Queue().Enqueue(b.ctx, "x", other, queue.Arrival{Mark: 1, Units: 1})
		require.NoError(b.t, err)
		require.ErrorIs(b.t, p.begin("x").failed(), ErrMismatch)
		require.ErrorIs(b.t, p.beginTry("x").failed(), ErrMismatch)
		require.Equal(b.t, place.Hi, b.doc("x").Issued)
		_, err = b.srv.Client().Queue().Settle(b.ctx, "x", []queue.Range{place.Range}, 1)
		require.NoError(b.t, err)
	})
}

// TestRefusalsForGoodFailAtOnce: the server understood and said no.
func TestRefusalsForGoodFailAtOnce(t *testing.T) {
	for _, op := range []memstore.Op{memstore.OpBeginSession, memstore.OpEnqueue} {
		t.Run(string(op), func(t *testing.T) {
			bubble(t, func(b *bed) {
				p := b.proc()
				remove := p.store.Hook(memstore.Before, op, memstore.Fail(1000, mongo.CommandError{Code: 13, Name: "Unauthorized"}))
				require.ErrorContains(b.t, p.begin("x").failed(), "Unauthorized")
				require.Equal(b.t, 1, p.store.Calls(op))
				remove()
				b.unlock(p.lock("x"))
			})
		})
	}
}

// TestTheDeadAreCleared: a process vanishes with a lock held and places in line.
func TestTheDeadAreCleared(t *testing.T) {
	bubble(t, func(b *bed) {
		dead, p, q := b.proc(), b.proc(), b.proc()
		dead.lock("x")
		inLine := p.begin("x")
		dead.begin("x")
		last := q.begin("x")
		time.Sleep(time.Second)
		began := time.Now()
		cut := dead.store.Hook(memstore.Before, memstore.OpAny, memstore.Hang)
		l := inLine.grantedIn(2 * testTTL)
		require.LessOrEqual(b.t, time.Since(began), testTTL+testTTL/10+time.Millisecond, "a lease and a look (I6)")
		b.unlock(l)
		b.unlock(last.granted())
		b.requireIdle("x")
		require.EqualValues(b.t, 1, p.Stats().SessionsEnded+q.Stats().SessionsEnded)
		cut()
	})
}
