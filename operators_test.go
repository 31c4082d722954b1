package fairlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
)

// TestLookOfADocumentMadeAnew: the document is made anew while a line looks after a force, which must not look for ever.
func TestLookOfADocumentMadeAnew(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		s, other := p.semaphore("x", 3), q.semaphore("x", 3)
		mine := p.beginAcquire(s, 1).granted()
		his := q.beginAcquire(other, 1).granted()
		b.withTicket()
		heal := p.store.Hook(memstore.Before, memstore.OpView, memstore.Fail(1_000_000, memstore.ErrNoReply))
		require.NoError(b.t, q.ForceUnlock(b.ctx, "x", his.Token(), "hangs"))
		one := p.beginAcquire(s, 1) // its reply shows that there was a force
		synctest.Wait()
		b.srv.DropLock("x")
		two := p.beginAcquire(s, 1)
		synctest.Wait()
		heal()
		time.Sleep(time.Minute)
		_ = mine.Unlock(b.ctx)
		l1 := one.grantedIn(time.Minute)
		b.unlock(l1)
		b.unlock(two.grantedIn(time.Minute))
	})
}

// TestForcesOfADocumentMadeAnew: what was forced in a document that is no more must not hide what is forced in the new one.
func TestForcesOfADocumentMadeAnew(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		s, other := p.semaphore("x", 3), q.semaphore("x", 3)
		old := p.beginAcquire(s, 1).granted()
		h1, h2 := q.beginAcquire(other, 1).granted(), q.beginAcquire(other, 1).granted()
		b.withTicket()
		for _, l := range []*Lock{h1, h2} {
			require.NoError(b.t, q.ForceUnlock(b.ctx, "x", l.Token(), "hangs"))
		}
		b.unlock(p.beginAcquire(s, 1).granted()) // by which p hears of two
		b.srv.DropLock("x")

		held := []*Lock{p.beginAcquire(s, 1).granted()} // its reply shows the new document
		b.requireLost(old.Err(), LostSettled)
		for range 2 {
			held = append(held, p.beginAcquire(s, 1).granted())
		}
		time.Sleep(8 * time.Second) // p listens to no stream any more
		deaf := p.store.Hook(memstore.After, memstore.OpRenew, memstore.Fail(1_000_000, memstore.ErrNoReply))
		require.NoError(b.t, q.ForceUnlock(b.ctx, "x", held[1].Token(), "hangs"))
		require.NoError(b.t, q.ForceUnlock(b.ctx, "x", held[2].Token(), "hangs"))
		var waits []*attempt
		for range 3 {
			waits = append(waits, p.beginAcquire(s, 1))
		}
		_ = held[1].Unlock(b.ctx)
		_ = held[2].Unlock(b.ctx)
		synctest.Wait()
		n := 0
		for _, w := range waits {
			if w.over() {
				n++
			}
		}
		require.NoError(b.t, held[0].Err())
		require.LessOrEqual(b.t, n+1, 3, "more hold than there are permits")
		deaf()
		b.unlock(held[0])
		for _, w := range waits {
			b.unlock(w.granted())
		}
	})
}

// TestForceOfAWaiterThatIsTooBig: all before it is settled, and it waits all the same: there are fewer permits than it wants.
func TestForceOfAWaiterThatIsTooBig(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		s := p.semaphore("x", 4)
		held := p.beginAcquire(s, 4).granted()
		big := q.beginAcquire(q.semaphore("x", 4), 4)
		b.withTicket()
		q.store.Hook(memstore.Before, memstore.OpViews, memstore.Fail(1_000_000, memstore.ErrNoReply))
		q.store.Hook(memstore.Before, memstore.OpSourceViews, memstore.Fail(1_000_000, memstore.ErrNoReply))
		q.store.Hook(memstore.Before, memstore.OpOpeningViews, memstore.Fail(1_000_000, memstore.ErrNoReply))
		require.NoError(b.t, s.SetPermits(b.ctx, 2))
		token := held.Token()
		b.unlock(held)
		require.False(b.t, big.over())
		require.ErrorIs(b.t, p.ForceUnlock(b.ctx, "x", token+4, "waits"), ErrNotHeld)
		big.cancel()
	})
}

// TestReleaseRefused: a refusal for good is told by Release as it is by Unlock.
func TestReleaseRefused(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		l := p.beginAcquire(p.semaphore("x", 3), 3).granted()
		heal := p.store.Hook(memstore.Before, memstore.OpSettle, memstore.Fail(1_000_000, &queue.MismatchError{}))
		ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
		defer cancel()
		require.ErrorIs(b.t, l.Release(ctx, 1), ErrMismatch)
		heal()
		time.Sleep(10 * time.Second)
		b.unlock(l)
	})
}

// TestSweepAfterALapse: a sweeper with a lock-delay whose lease has lapsed once does not stop all sweeping for as long as the delay.
func TestSweepAfterALapse(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc(func(c *Config) { c.LockDelay = 30 * time.Minute })
		p.lock("p")
		time.Sleep(5 * testTTL)
		mine, _ := p.sweepRight(b.ctx)
		require.True(b.t, mine)
		q := b.proc()
		q.lock("q")
		heal := p.store.Hook(memstore.Before, memstore.OpRenew, memstore.Fail(1_000_000, memstore.ErrNoReply))
		time.Sleep(2 * testTTL)
		heal()
		time.Sleep(5 * testTTL)
		synctest.Wait()
		mine, _ = p.sweepRight(b.ctx)
		synctest.Wait()
		his, _ := q.sweepRight(b.ctx)
		require.True(b.t, mine || his, "nobody can sweep")
	})
}

// TestTryAfterForce: the first try after somebody's grant was unlocked by force.
func TestTryAfterForce(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		s, other := p.semaphore("x", 3), q.semaphore("x", 3)
		mine := p.beginAcquire(s, 1).granted()
		his := q.beginAcquire(other, 1).granted()
		b.withTicket()
		require.NoError(b.t, p.ForceUnlock(b.ctx, "x", his.Token(), "hangs"))
		l, err := s.TryAcquire(b.ctx, 1)
		require.NoError(b.t, err)
		b.unlock(l)
		b.unlock(mine)
	})
}

// TestCloseWhileLooking: a look that can never succeed does not keep Close from ending.
func TestCloseWhileLooking(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		s := p.semaphore("x", 2)
		one := p.beginAcquire(s, 1).granted()
		two := q.beginAcquire(q.semaphore("x", 2), 1).granted()
		b.withTicket()
		heal := p.store.Hook(memstore.Before, memstore.OpView, memstore.Fail(1_000_000, &queue.PrivilegeError{}))
		require.NoError(b.t, q.ForceUnlock(b.ctx, "x", two.Token(), "hangs"))
		three := p.beginAcquire(s, 1)
		synctest.Wait()
		_, _ = one, three
		require.NoError(b.t, p.closeIn(time.Minute))
		heal()
	})
}

// TestFewerPermitsInsideARun: what is given back is not passed on inside the process while more are held than there are permits.
func TestFewerPermitsInsideARun(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		s := p.semaphore("x", 4)
		var held []*Lock
		for range 4 {
			held = append(held, p.beginAcquire(s, 1).granted())
		}
		next := p.beginAcquire(s, 1)
		time.Sleep(100 * time.Millisecond)
		require.NoError(b.t, s.SetPermits(b.ctx, 1))
		synctest.Wait()
		b.unlock(held[0])
		require.False(b.t, next.over(), "3 are held of 1")
		next.cancel()
		for _, l := range held[1:] {
			b.unlock(l)
		}
	})
}

// TestCampaignWithoutAValue: observers see none, and not the label of the program.
func TestCampaignWithoutAValue(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		e, err := p.Election("x")
		require.NoError(b.t, err)
		l, err := e.Campaign(b.ctx, "")
		require.NoError(b.t, err)
		b.withTicket()
		leader, err := e.Leader(b.ctx)
		require.NoError(b.t, err)
		require.Equal(b.t, "", leader.Value)
		require.NoError(b.t, l.Resign(b.ctx))
	})
}

// TestRequestedLate: the line has heard of the request (audit) before the holder asks for the channel.
func TestRequestedLate(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		l := p.lock("x")
		b.withTicket()
		require.NoError(b.t, q.RequestRelease(b.ctx, "x"))
		time.Sleep(2 * testTTL) // the audit reads the document
		asked := l.Requested()
		time.Sleep(10 * requestPause)
		select {
		case <-asked:
		default:
			require.Fail(b.t, "the request is never told")
		}
		b.unlock(l)
	})
}

// TestRequestedSecondHolder: two holders of one semaphore in one process, of whom only one listens at first.
func TestRequestedSecondHolder(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		s := p.semaphore("x", 2)
		one, two := p.beginAcquire(s, 1).granted(), p.beginAcquire(s, 1).granted()
		first := one.Requested()
		require.NoError(b.t, q.RequestRelease(b.ctx, "x"))
		<-first
		second := two.Requested()
		time.Sleep(10 * requestPause)
		select {
		case <-second:
		default:
			require.Fail(b.t, "the other holder is never told")
		}
		b.unlock(one)
		b.unlock(two)
	})
}

// TestForceReachesTheNextProcess: with a lock-delay, too, who waits in the process of the forced holder and who waits in another go on at once.
func TestForceReachesTheNextProcess(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(func(c *Config) { c.LockDelay = 10 * time.Minute }), b.proc()
		held := p.lock("x")
		two := p.begin("x")
		three := q.begin("x")
		b.withTicket()
		require.NoError(b.t, q.ForceUnlock(b.ctx, "x", held.Token(), "hangs"))
		l := two.grantedIn(testTTL)
		b.unlock(l)
		b.unlock(three.granted())
	})
}

// TestManagedInOneProcess: after SetPermits what users name does not count.
func TestManagedInOneProcess(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		s3, s5 := p.semaphore("x", 3), p.semaphore("x", 5)
		held := p.beginAcquire(s3, 1).granted()
		require.NoError(b.t, s3.SetPermits(b.ctx, 5))
		l, err := s5.Acquire(b.ctx, 1)
		require.NoError(b.t, err)
		b.unlock(l)
		b.unlock(held)
	})
}

// TestManagedTwoAtOnce: nobody holds, and two calls name different permits at the same time.
func TestManagedTwoAtOnce(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		s3, s5 := p.semaphore("x", 3), p.semaphore("x", 5)
		require.NoError(b.t, s3.SetPermits(b.ctx, 4))
		release := p.store.Hook(memstore.Before, memstore.OpEnqueue, memstore.Fail(1, memstore.ErrNoReply))
		one := p.beginAcquire(s3, 1)
		two := p.beginAcquire(s5, 1)
		time.Sleep(time.Second)
		release()
		b.unlock(one.granted())
		b.unlock(two.granted())
	})
}

// TestMaxWaitersOfAnRWLock: the limit is not one of numbers.
func TestMaxWaitersOfAnRWLock(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc(func(c *Config) { c.MaxWaiters = 100 })
		rw, err := p.RWLock("x")
		require.NoError(b.t, err)
		w, err := rw.Lock(b.ctx)
		require.NoError(b.t, err)
		a := b.attempt(func(ctx context.Context) (*Lock, error) { return rw.Lock(ctx) })
		require.False(b.t, a.over(), "one waits, of 100 who may: %v", a.err)
		b.unlock(w)
		b.unlock(a.granted())
	})
}

// TestReentryOfASet: a lock of the set under its context.
func TestReentryOfASet(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		s, err := p.LockAll(b.ctx, []string{"x", "y"})
		require.NoError(b.t, err)
		a := b.attempt(func(context.Context) (*Lock, error) { return p.Lock(s.Context(), "x") })
		require.True(b.t, a.over(), "it waits for itself")
		require.ErrorIs(b.t, a.failed(), ErrReentrant)
		require.NoError(b.t, s.Unlock(b.ctx))
	})
}
