package fairlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
)

func TestSessionEndedWhileHolding(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		l := p.lock("x")
		ctx := l.Context()
		old := p.Session()
		b.srv.EndSession(old)
		require.NoError(b.t, l.Err(), "not known yet")
		<-ctx.Done()
		b.requireLost(context.Cause(ctx), LostSession)
		b.requireLost(l.Err(), LostSession)
		b.requireLost(l.Unlock(b.ctx), LostSession)
		require.Empty(b.t, p.Session())
		b.unlock(p.lock("x"))
		require.NotEqual(b.t, old, p.Session())
		require.EqualValues(b.t, 1, p.Stats().Lost)
	})
}

// TestSessionEndedWhileWaiting: the waiter queues again at the tail, under a new session.
func TestSessionEndedWhileWaiting(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := other.lock("x")
		a := p.begin("x")
		behind := other.begin("x")
		time.Sleep(time.Second)
		old := p.Session()
		b.srv.EndSession(old)
		time.Sleep(testTTL / 3)
		synctest.Wait()
		require.EqualValues(b.t, 1, p.Stats().Requeued)
		require.NotEqual(b.t, old, p.Session())
		b.unlock(l)
		b.unlock(behind.granted())
		b.unlock(a.granted())
		b.requireIdle("x")
	})
}

// TestSessionEndedWhileAsked: the numbers come back under a session that is over.
func TestSessionEndedWhileAsked(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		b.unlock(p.lock("x"))
		gate := memstore.NewGate()
		remove := p.store.Hook(memstore.After, memstore.OpEnqueue, gate.Pass)
		a := p.begin("x")
		b.srv.EndSession(p.Session())
		time.Sleep(testTTL/3 + time.Millisecond)
		remove()
		gate.Open()
		l := a.grantedIn(time.Second)
		require.EqualValues(b.t, 1, p.Stats().Requeued)
		b.unlock(l)
		b.requireIdle("x")
	})
}

// TestLapse: what is held is lost when the lease is not renewed in time; what waits keeps its place when it is renewed later.
func TestLapse(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		held := other.lock("y")
		l := p.lock("x")
		ctx := l.Context()
		a := p.begin("y")
		number := b.doc("y").Issued
		behind := other.begin("y")
		behindX := other.begin("x")
		time.Sleep(time.Second)
		remove := p.store.Hook(memstore.Before, memstore.OpRenew, memstore.Fail(1000, memstore.ErrNoReply))
		<-ctx.Done()
		b.requireLost(context.Cause(ctx), LostLease)
		b.requireLost(l.Err(), LostLease)
		require.False(b.t, behindX.over(), "the holder has Margin to stop")
		next := p.begin("x", MaxWait(time.Minute))
		remove()
		time.Sleep(testTTL / 3)
		b.unlock(behindX.granted())
		b.unlock(next.granted())
		b.requireLost(l.Err(), LostLease)
		b.requireLost(l.Unlock(b.ctx), LostLease)

		b.unlock(held)
		place := a.granted()
		require.Equal(b.t, number, place.Token())
		require.Zero(b.t, p.Stats().Requeued)
		b.unlock(place)
		b.unlock(behind.granted())
		b.requireIdle("y")
	})
}

// TestNothingIsGrantedDuringALapse: the number is admitted, and the process cannot trust it.
func TestNothingIsGrantedDuringALapse(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := other.lock("x")
		a := p.begin("x")
		time.Sleep(time.Second)
		remove := p.store.Hook(memstore.Before, memstore.OpRenew, memstore.Fail(1000, memstore.ErrNoReply))
		time.Sleep(testTTL - testMargin - time.Second)
		b.unlock(l)
		require.False(b.t, a.over())
		require.ErrorIs(b.t, p.beginTry("z").failed(), errNotTrusted)
		remove()
		b.unlock(a.grantedIn(time.Second))
	})
}

// TestTimeAsleep: the machine was suspended. No timer has fired, and the first call tells the truth.
func TestTimeAsleep(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		x, y, z := p.lock("x"), p.lock("y"), p.lock("z", MaxHold(time.Second))
		ctx := x.Context()
		require.Equal(b.t, testTTL-testMargin, x.Left())
		p.clk.Sleep(2 * time.Second)
		require.NoError(b.t, x.Err())
		b.requireLost(z.Err(), LostMaxHold)
		p.clk.Sleep(testTTL)
		require.NoError(b.t, ctx.Err(), "nothing has run")
		require.Zero(b.t, x.Left())
		b.requireLost(x.Err(), LostLease)
		b.requireLost(context.Cause(ctx), LostLease)
		b.requireLost(y.Unlock(b.ctx), LostLease)
		b.requireLost(y.Unlock(b.ctx), LostLease)
		time.Sleep(time.Second)
		b.requireLost(x.Unlock(b.ctx), LostLease)
		_ = z.Unlock(b.ctx)
	})
}

// TestTimeAsleepBeforeTheTicket: the grace of a number without a ticket runs on while the machine sleeps.
func TestTimeAsleepBeforeTheTicket(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		b.unlock(p.lock("warm up"))
		time.Sleep(testTTL/3 - 100*time.Millisecond)
		gate := memstore.NewGate()
		p.store.Hook(memstore.Before, memstore.OpPutTicket, gate.Pass)
		l := p.lock("x")
		<-gate.Reached()
		time.Sleep(100 * time.Millisecond) // renewed right now
		p.clk.Sleep(testTTL - testMargin - 150*time.Millisecond)
		b.requireLost(l.Err(), LostTicket)
		gate.Open()
		_ = l.Unlock(b.ctx)
	})
}

// TestAFrozenProcessIsReplaced, and knows it when it wakes up.
func TestAFrozenProcessIsReplaced(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := p.lock("x")
		a := other.begin("x")
		time.Sleep(time.Second)
		wake := memstore.NewGate()
		p.store.Hook(memstore.Before, memstore.OpAny, wake.Pass)
		next := a.grantedIn(2 * testTTL)
		require.Greater(b.t, next.Token(), l.Token())
		wake.Open()
		require.ErrorIs(b.t, l.Err(), ErrLost)
		require.ErrorIs(b.t, l.Unlock(b.ctx), ErrLost)
		time.Sleep(testTTL)
		require.NoError(b.t, next.Err(), "the late settle of the old holder changes nothing")
		b.unlock(next)
		b.requireIdle("x")
	})
}

func TestMaxHold(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := p.lock("x", MaxHold(2*time.Second))
		ctx := l.Context()
		a := other.begin("x")
		time.Sleep(2*time.Second - time.Millisecond)
		require.NoError(b.t, l.Err())
		require.Equal(b.t, time.Millisecond, l.Left())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		b.requireLost(context.Cause(ctx), LostMaxHold)
		b.requireLost(l.Err(), LostMaxHold)
		time.Sleep(testMargin - time.Millisecond)
		require.False(b.t, a.over(), "the holder has Margin to stop")
		time.Sleep(time.Millisecond)
		b.unlock(a.granted())
		b.requireLost(l.Unlock(b.ctx), LostMaxHold)
		require.EqualValues(b.t, 1, p.Stats().Lost)
		b.requireIdle("x")
	})
}

// TestMaxHoldUnlockedEarly: who gives it back after the loss need not wait for Margin.
func TestMaxHoldUnlockedEarly(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := p.lock("x", MaxHold(time.Second))
		a := other.begin("x")
		time.Sleep(time.Second)
		b.requireLost(l.Unlock(b.ctx), LostMaxHold)
		b.unlock(a.granted())
		time.Sleep(2 * testMargin)
		b.requireIdle("x")
	})
}

func TestExtend(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		l := p.lock("x", MaxHold(2*time.Second))
		ctx := l.Context()
		time.Sleep(time.Second)
		require.NoError(b.t, l.Extend(5*time.Second))
		time.Sleep(5*time.Second - time.Millisecond)
		require.NoError(b.t, l.Err())
		require.NoError(b.t, l.Extend(10*time.Second))
		require.NoError(b.t, l.Extend(time.Second), "also to earlier than before")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Error(b.t, ctx.Err())
		b.requireLost(l.Extend(time.Second), LostMaxHold)
		require.ErrorIs(b.t, l.Extend(0), ErrInvalidOption)
		b.requireLost(l.Unlock(b.ctx), LostMaxHold)

		l = p.lock("x")
		require.ErrorIs(b.t, l.Extend(time.Second), ErrNoMaxHold)
		b.unlock(l)
		l = p.lock("x", MaxHold(time.Second))
		b.unlock(l)
		require.ErrorIs(b.t, l.Extend(time.Second), ErrUnlocked)
		time.Sleep(2 * time.Second)
		require.EqualValues(b.t, 1, p.Stats().Lost)
	})
}

// TestMaxHoldIsLongerThanTheLease, which is renewed meanwhile.
func TestMaxHoldIsLongerThanTheLease(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		l := p.lock("x", MaxHold(5*testTTL))
		time.Sleep(5*testTTL - time.Millisecond)
		require.NoError(b.t, l.Err())
		b.unlock(l)
	})
}
