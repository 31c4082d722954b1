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

// T1: the line has heard of the request (audit) before the holder asks for the channel.
func TestR6RequestedLate(t *testing.T) {
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

// T1b: two holders of one semaphore in one process, only one of them listens at first.
func TestR6RequestedSecondHolder(t *testing.T) {
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

// T2: LockDelay must not delay after an unlocking by force (doc of Config.LockDelay).
func TestR6ForcedHasNoLockDelay(t *testing.T) {
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

// T3: after SetPermits what users name does not count.
func TestR6ManagedSameProcess(t *testing.T) {
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

// T3b: nobody holds; two calls that name different permits of a managed semaphore, at the same time.
func TestR6ManagedTwoAtOnce(t *testing.T) {
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

// T15: TryAcquire after somebody else's grant was unlocked by force.
func TestR6TryAfterForce(t *testing.T) {
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

// T7: a look that can never succeed must not keep Close from ending.
func TestR6CloseWhileLooking(t *testing.T) {
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

// T8: with fewer permits nobody is admitted as long as more are held than there are.
func TestR6FewerPermitsInsideARun(t *testing.T) {
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

// T9: a limit on those who wait, and a lock whose callers want several units.
func TestR6MaxWaitersOfAnRWLock(t *testing.T) {
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

// T10
func TestR6CampaignWithoutAValue(t *testing.T) {
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

// T12
func TestR6ReentryOfASet(t *testing.T) {
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
