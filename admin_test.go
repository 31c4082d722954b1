package fairlock

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
)

// semaphore is a semaphore of a process.
func (p *proc) semaphore(name string, permits int64) *Semaphore {
	s, err := p.Semaphore(name, permits)
	require.NoError(p.b.t, err)
	return s
}

// beginAcquire starts a call of Acquire.
func (p *proc) beginAcquire(s *Semaphore, n int64) *attempt {
	return p.b.attempt(func(ctx context.Context) (*Lock, error) { return s.Acquire(ctx, n) })
}

func TestSetPermitsAdmitsWhoFits(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		s := p.semaphore("x", 2)
		held := p.beginAcquire(s, 2).granted()
		one, two, three := q.beginAcquire(q.semaphore("x", 2), 1), p.beginAcquire(s, 2), q.beginAcquire(q.semaphore("x", 2), 2)
		require.NoError(b.t, q.semaphore("x", 7).SetPermits(b.ctx, 5))
		l1, l2 := one.grantedIn(0), two.granted()
		require.False(b.t, three.over())

		b.unlock(l1)
		require.False(b.t, three.over(), "1 of 5 is free")
		b.unlock(l2)
		b.unlock(three.granted())
		b.unlock(held)

		require.NoError(b.t, s.SetPermits(b.ctx, 1))
		require.False(b.t, b.doc("x").IdleSince != nil, "what was decided by hand is not collected")
		n, err := q.semaphore("x", 3).Permits(b.ctx)
		require.NoError(b.t, err)
		require.EqualValues(b.t, 1, n, "whatever users name")
		only := q.beginAcquire(q.semaphore("x", 9), 1).granted()
		next := p.beginAcquire(s, 1)
		require.False(b.t, next.over())
		b.unlock(only)
		b.unlock(next.granted())
	})
}

// TestFewerPermits: nobody loses anything, and nobody is admitted before there is room again.
func TestFewerPermits(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		s := p.semaphore("x", 4)
		held := []*Lock{p.beginAcquire(s, 1).granted(), p.beginAcquire(s, 1).granted(), q.beginAcquire(q.semaphore("x", 4), 2).granted()}
		require.NoError(b.t, s.SetPermits(b.ctx, 1))
		next, last := q.beginAcquire(q.semaphore("x", 4), 1), p.beginAcquire(s, 1)
		for _, l := range held {
			require.False(b.t, next.over())
			b.unlock(l)
		}
		l := next.granted()
		require.False(b.t, last.over())
		b.unlock(l)
		b.unlock(last.granted())
	})
}

// TestTooManyUnits: a request that never fits is refused, whenever that comes out, and those behind it go on.
func TestTooManyUnits(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		s := p.semaphore("x", 3)
		_, err := s.Acquire(b.ctx, 4)
		require.Equal(b.t, &queue.TooBigError{Name: "x", Units: 4, Permits: 3}, err)
		require.ErrorIs(b.t, err, ErrTooBig)
		require.EqualError(b.t, err, `fairlock: more units than permits: lock "x" has 3 permits, 4 are asked for`)
		_, found := b.srv.Lock("x")
		require.False(b.t, found, "nothing is left")

		held := p.beginAcquire(s, 1).granted()
		big, small := q.beginAcquire(q.semaphore("x", 3), 3), q.beginAcquire(q.semaphore("x", 3), 1)
		require.NoError(b.t, s.SetPermits(b.ctx, 2))
		time.Sleep(10 * time.Second)
		require.ErrorIs(b.t, big.failed(), ErrTooBig)
		b.unlock(small.granted())
		_, err = q.semaphore("x", 3).TryAcquire(b.ctx, 3)
		require.ErrorIs(b.t, err, ErrTooBig, "also where nobody has heard of it")
		b.unlock(held)
		require.NoError(b.t, s.SetPermits(b.ctx, 4))
		b.unlock(p.beginAcquire(s, 4).granted())
	})
}

func TestSetPermitsIsOfSemaphores(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		l := p.lock("x")
		s := p.semaphore("x", 1)
		require.ErrorIs(b.t, s.SetPermits(b.ctx, 2), ErrMismatch)
		_, err := s.Permits(b.ctx)
		require.ErrorIs(b.t, err, ErrMismatch)
		for _, n := range []int64{0, -1, queue.MostPermits + 1} {
			require.ErrorIs(b.t, s.SetPermits(b.ctx, n), ErrInvalidOption)
		}
		require.EqualValues(b.t, 1, b.doc("x").Permits)
		b.unlock(l)
		b.requireIdle("x")
	})
}

func TestRequestRelease(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		require.ErrorIs(b.t, q.RequestRelease(b.ctx, "x"), ErrNotHeld)
		l := p.lock("x")
		asked := l.Requested()
		time.Sleep(3 * requestPause)
		require.NoError(b.t, q.RequestRelease(b.ctx, "x"))
		began := time.Now()
		<-asked
		require.LessOrEqual(b.t, time.Since(began), requestPause)
		require.NoError(b.t, l.Err(), "it was only asked")
		info, err := q.Inspect(b.ctx, "x")
		require.NoError(b.t, err)
		require.Contains(b.t, info.Request.By, q.cfg.Label)
		b.unlock(l)
		require.ErrorIs(b.t, q.RequestRelease(b.ctx, "x"), ErrNotHeld)

		l = p.lock("x")
		asked = l.Requested()
		time.Sleep(3 * requestPause)
		select {
		case <-asked:
			require.Fail(b.t, "the request was for another")
		default:
		}
		b.unlock(l)
		time.Sleep(3 * requestPause)
		synctest.Wait()
		require.False(b.t, p.requests.running, "nobody wants to know any more")
		require.Empty(b.t, p.requests.locks)
		b.requireIdle("x")
	})
}

// TestRequestOfAPassedLock: the lock was passed on inside the process without a write, so the request names a number that is over.
func TestRequestOfAPassedLock(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		one, two := p.lock("x"), p.begin("x")
		three := p.begin("x") // so that there is something to pass on
		b.unlock(one)
		l := two.granted()
		before := l.Requested()
		require.NoError(b.t, q.RequestRelease(b.ctx, "x"))
		<-before
		b.unlock(l)
		last := three.granted()
		asked := last.Requested()
		time.Sleep(3 * requestPause)
		select {
		case <-asked:
			require.Fail(b.t, "it was asked once")
		default:
		}
		b.unlock(last)
	})
}

// withTicket waits until the newest arrivals have tickets.
func (b *bed) withTicket() { time.Sleep(time.Second) }

func TestForceUnlock(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q, operator := b.proc(), b.proc(), b.proc()
		l := p.lock("x")
		next := q.begin("x")
		require.ErrorIs(b.t, operator.ForceUnlock(b.ctx, "x", l.Token(), "hangs"), ErrNotHeld, "no ticket yet")
		b.withTicket()
		require.ErrorIs(b.t, operator.ForceUnlock(b.ctx, "x", l.Token()+1, "waits"), ErrNotHeld)
		require.False(b.t, next.over())
		require.NoError(b.t, operator.ForceUnlock(b.ctx, "x", l.Token(), "$hangs"))
		got := next.grantedIn(0)
		require.NoError(b.t, operator.ForceUnlock(b.ctx, "x", l.Token(), "$hangs"), "again, of the same")
		require.NoError(b.t, got.Err())
		<-l.Context().Done()
		b.requireLost(l.Err(), LostForced)
		b.requireLost(l.Unlock(b.ctx), LostForced)

		info, err := operator.Inspect(b.ctx, "x")
		require.NoError(b.t, err)
		require.Len(b.t, info.Forced, 1)
		f := info.Forced[0]
		require.Equal(b.t, []any{l.Token(), "$hangs", p.Session()}, []any{f.Token, f.Reason, f.Session})
		require.Contains(b.t, f.By, operator.cfg.Label)
		require.WithinDuration(b.t, time.Now(), f.At, time.Minute)
		b.unlock(got)
		require.ErrorIs(b.t, operator.ForceUnlock(b.ctx, "x", got.Token(), "again"), ErrNotHeld, "given back")
		b.requireIdle("x")
	})
}

// TestForcedIsToldByRenewal: nobody in the holder's process listens.
func TestForcedIsToldByRenewal(t *testing.T) {
	bubble(t, func(b *bed) {
		p, operator := b.proc(), b.proc()
		l, other := p.lock("x"), p.lock("y")
		b.withTicket()
		require.NoError(b.t, operator.ForceUnlock(b.ctx, "x", l.Token(), "hangs"))
		began := time.Now()
		<-l.Context().Done()
		require.LessOrEqual(b.t, time.Since(began), testTTL/3)
		b.requireLost(l.Err(), LostForced)
		time.Sleep(testTTL)
		require.NoError(b.t, other.Err())
		b.unlock(other)
		b.requireIdle("x")
		b.requireIdle("y")
	})
}

// TestForcedInsideARun: the others of the process keep their places, and the next of them waits until the holder has stopped.
func TestForcedInsideARun(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		first := p.lock("x")
		two, three := p.begin("x"), p.begin("x")
		other := q.begin("x")
		b.unlock(first) // passed on inside the process
		held := two.granted()
		time.Sleep(3 * time.Second) // the ticket says how far it has come
		require.NoError(b.t, q.ForceUnlock(b.ctx, "x", held.Token(), "hangs"))
		<-held.Context().Done()
		told := time.Now()
		b.requireLost(held.Err(), LostForced)
		l := three.granted()
		require.Equal(b.t, testMargin, time.Since(told))
		require.Zero(b.t, p.Stats().Requeued)
		require.False(b.t, other.over())
		b.unlock(l)
		b.unlock(other.granted())
		b.requireIdle("x")
	})
}

// TestForcedOutOfOrder: of several holders one is unlocked by force, and no more are admitted than there are permits, whatever is known of it when.
func TestForcedOutOfOrder(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		s, other := p.semaphore("x", 2), q.semaphore("x", 2)
		one, two := p.beginAcquire(s, 1).granted(), p.beginAcquire(s, 1).granted()
		three, four := p.beginAcquire(s, 1), p.beginAcquire(s, 1)
		away := q.beginAcquire(other, 2)
		b.withTicket()
		require.NoError(b.t, q.ForceUnlock(b.ctx, "x", two.Token(), "hangs"))
		synctest.Wait()
		b.requireLost(two.Err(), LostForced)
		require.NoError(b.t, one.Err())
		require.False(b.t, three.over(), "the holder in this process has Margin to stop")
		b.requireLost(two.Unlock(b.ctx), LostForced)
		l3 := three.granted()
		require.False(b.t, four.over())
		b.unlock(one)
		l4 := four.granted()
		require.False(b.t, away.over())
		b.unlock(l3)
		require.False(b.t, away.over())
		b.unlock(l4)
		b.unlock(away.granted())
		b.requireIdle("x")
	})
}

// TestForcedIsLookedInto: of two that were unlocked by force the process has heard of the second only.
func TestForcedIsLookedInto(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		s := p.semaphore("x", 3)
		var held []*Lock
		for range 3 {
			held = append(held, p.beginAcquire(s, 1).granted())
		}
		b.withTicket()
		deaf := p.store.Hook(memstore.After, memstore.OpRenew, memstore.Fail(1000, memstore.ErrNoReply))
		for _, l := range held[1:] {
			require.NoError(b.t, q.ForceUnlock(b.ctx, "x", l.Token(), "hangs"))
		}
		var waits []*attempt
		for range 3 {
			waits = append(waits, p.beginAcquire(s, 1))
		}
		synctest.Wait()
		for _, l := range held[1:] {
			b.requireLost(l.Err(), LostForced)
			b.requireLost(l.Unlock(b.ctx), LostForced)
		}
		require.NoError(b.t, held[0].Err())
		deaf()
		l0, l1 := waits[0].granted(), waits[1].granted()
		require.False(b.t, waits[2].over(), "three hold")
		b.unlock(l0)
		b.unlock(waits[2].granted())
		b.unlock(l1)
		b.unlock(held[0])
		b.requireIdle("x")
	})
}

func TestForceUnlockBadInput(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		for _, c := range []struct {
			name, reason string
			token        int64
			want         error
			says         string
		}{
			{"", "r", 1, ErrInvalidName, ""},
			{"x", "r", 0, ErrInvalidOption, "token is 0: must be positive"},
			{"x", "", 1, ErrInvalidOption, "must have 1 to 255 bytes"},
			{"x", strings.Repeat("r", 256), 1, ErrInvalidOption, "has 256"},
			{"x", "\xff", 1, ErrInvalidOption, `"\xff"`},
			{"x", "r", 1, ErrNotHeld, "there is no such lock"},
		} {
			err := p.ForceUnlock(b.ctx, c.name, c.token, c.reason)
			require.ErrorIs(b.t, err, c.want)
			require.ErrorContains(b.t, err, c.says)
		}
		require.ErrorIs(b.t, p.RequestRelease(b.ctx, ""), ErrInvalidName)
		require.Empty(b.t, b.srv.Locks())
	})
}

// TestLockDelay: after a loss nobody is admitted for so long, and after an Unlock at once.
func TestLockDelay(t *testing.T) {
	const delay = time.Minute
	for name, lose := range map[string]func(*bed, *proc) (l *Lock, heal func()){
		"maximum hold": func(b *bed, p *proc) (*Lock, func()) {
			return p.lock("x", MaxHold(5*time.Second)), func() {}
		},
		"cut off": func(b *bed, p *proc) (*Lock, func()) {
			l := p.lock("x")
			b.withTicket()
			return l, p.store.Hook(memstore.Before, memstore.OpAny, memstore.Fail(1_000_000, memstore.ErrNoReply))
		},
		"cut off without a ticket": func(b *bed, p *proc) (*Lock, func()) {
			l := p.lock("x")
			return l, p.store.Hook(memstore.Before, memstore.OpAny, memstore.Fail(1_000_000, memstore.ErrNoReply))
		},
	} {
		lockDelay := func(t *testing.T, unlocks bool) {
			bubble(t, func(b *bed) {
				p, q := b.proc(func(c *Config) { c.LockDelay = delay }), b.proc()
				l := p.lock("x")
				next := q.begin("x")
				b.withTicket()
				b.unlock(l)
				b.unlock(next.grantedIn(0))

				l, heal := lose(b, p)
				next = q.begin("x")
				<-l.Context().Done()
				told := time.Now()
				require.ErrorIs(b.t, l.Err(), ErrLost)
				if unlocks {
					require.ErrorIs(b.t, l.Unlock(b.ctx), ErrLost, "which does not shorten it")
				}
				got := next.grantedIn(2 * delay)
				require.GreaterOrEqual(b.t, time.Since(told), delay+testMargin)
				b.unlock(got)
				heal()
			})
		}
		t.Run(name, func(t *testing.T) { lockDelay(t, false) })
		t.Run(name+" and unlocked", func(t *testing.T) { lockDelay(t, true) })
	}
}

// TestSeveralNumbersNamedInOneProcess: of a semaphore whose permits were set by hand.
func TestSeveralNumbersNamedInOneProcess(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		require.NoError(b.t, p.semaphore("x", 5).SetPermits(b.ctx, 2))
		gate := memstore.NewGate()
		remove := p.store.Hook(memstore.Before, memstore.OpEnqueue, gate.Pass)
		one, two := p.beginAcquire(p.semaphore("x", 3), 1), p.beginAcquire(p.semaphore("x", 4), 1)
		remove()
		gate.Open()
		b.unlock(one.granted())
		b.unlock(two.granted())
	})
}
