package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

// adminCases are what operators do to locks of others.
var adminCases = []testCase{
	{"more permits wake those who wait", morePermits},
	{"fewer permits take nothing away", fewerPermits},
	{"more units than permits", tooManyUnits},
	{"permits of another kind", permitsOfOtherKind},
	{"a release is asked for", releaseAsked},
	{"a release of what is not held", releaseOfNothing},
	{"unlocked by force", unlockedByForce},
	{"a permit unlocked by force", permitByForce},
	{"by force, of what is not held", forceOfNothing},
	{"bad input", badAdminInput},
	{"a delay after a loss", delayAfterLoss},
	{"no delay after Unlock and Close", noDelayAfterUnlock},
}

func morePermits(b *bed) {
	p, q, r := b.process(), b.process(), b.process()
	sp, sq := b.semaphore(p, 1), b.semaphore(q, 1)
	held := b.acquire(sp, 1)
	one, two := b.waitFor(q, sq, 1), b.waitFor(r, b.semaphore(r, 1), 1)
	require.NoError(b.t, b.semaphore(r, 7).SetPermits(b.ctx, 2))
	first := one.granted()
	two.waits()
	permits, err := sp.Permits(b.ctx)
	require.NoError(b.t, err)
	require.EqualValues(b.t, 2, permits)
	b.unlock(held)
	second := two.granted()
	b.unlock(first)
	b.unlock(second)
	// What a caller names does not count any more.
	both := b.acquire(sp, 2)
	b.unlock(both)
	info, err := p.Inspect(b.ctx, "s")
	require.NoError(b.t, err)
	require.True(b.t, info.Managed)
	require.EqualValues(b.t, 2, info.Permits)
}

func fewerPermits(b *bed) {
	p, q := b.process(), b.process()
	sp, sq := b.semaphore(p, 3), b.semaphore(q, 3)
	one, two := b.acquire(sp, 1), b.acquire(sp, 1)
	require.NoError(b.t, sq.SetPermits(b.ctx, 1))
	require.NoError(b.t, one.Err())
	require.NoError(b.t, two.Err())
	next := b.waitFor(q, sq, 1)
	b.unlock(one)
	next.waits() // as many are held as there are
	_, err := sq.TryAcquire(b.ctx, 1)
	require.ErrorIs(b.t, err, fairlock.ErrBusy)
	b.unlock(two)
	b.unlock(next.granted())
}

func tooManyUnits(b *bed) {
	p, q := b.process(), b.process()
	sp, sq := b.semaphore(p, 3), b.semaphore(q, 3)
	for _, f := range []func(context.Context, int64, ...fairlock.Option) (*fairlock.Lock, error){sp.Acquire, sp.TryAcquire} {
		_, err := f(b.ctx, 4)
		require.ErrorIs(b.t, err, fairlock.ErrTooBig)
		require.ErrorContains(b.t, err, `"s"`)
		require.ErrorContains(b.t, err, "4")
		require.ErrorContains(b.t, err, "3")
	}
	b.untouched(p)
	// There were enough when it began to wait.
	held := b.acquire(sp, 1)
	big := b.waitFor(q, sq, 3)
	require.NoError(b.t, sp.SetPermits(b.ctx, 2))
	require.ErrorIs(b.t, big.failed(), fairlock.ErrTooBig)
	b.unlock(held)
	b.unlock(b.acquire(sq, 2))
}

func permitsOfOtherKind(b *bed) {
	p := b.process()
	held := b.lock(p, "s")
	err := b.semaphore(p, 3).SetPermits(b.ctx, 2)
	require.ErrorIs(b.t, err, fairlock.ErrMismatch)
	require.ErrorContains(b.t, err, "mutex")
	info, err := p.Inspect(b.ctx, "s")
	require.NoError(b.t, err)
	require.EqualValues(b.t, 1, info.Permits)
	require.False(b.t, info.Managed)
	b.unlock(held)
}

func releaseAsked(b *bed) {
	p, q := b.process(), b.process(func(c *fairlock.Config) { c.Label = "operator" })
	l := b.lock(p, "x")
	asked := l.Requested()
	require.NoError(b.t, q.RequestRelease(b.ctx, "x"))
	<-asked
	require.NoError(b.t, l.Err(), "it is asked, not forced")
	info, err := q.Inspect(b.ctx, "x")
	require.NoError(b.t, err)
	require.NotNil(b.t, info.Request)
	require.Contains(b.t, info.Request.By, "operator")
	require.Equal(b.t, l.Token(), info.Request.UpTo)
	b.unlock(l)

	next := b.lock(p, "x")
	again := next.Requested()
	select {
	case <-again:
		b.t.Fatal("it was asked for before")
	default:
	}
	require.NoError(b.t, q.RequestRelease(b.ctx, "x"))
	<-again
	b.unlock(next)
}

func releaseOfNothing(b *bed) {
	p := b.process()
	err := p.RequestRelease(b.ctx, "x")
	require.ErrorIs(b.t, err, fairlock.ErrNotHeld)
	require.ErrorContains(b.t, err, `"x"`)
	b.untouched(p)
	b.unlock(b.lock(p, "x"))
	require.ErrorIs(b.t, p.RequestRelease(b.ctx, "x"), fairlock.ErrNotHeld)
}

func unlockedByForce(b *bed) {
	p, q := b.process(short), b.process(short, func(c *fairlock.Config) { c.Label = "operator" })
	l := b.lock(p, "x")
	next := b.wait(q, "x")
	b.seen(q, "x", l.Token())
	require.NoError(b.t, q.ForceUnlock(b.ctx, "x", l.Token(), "it hangs"))
	got := next.granted()
	<-l.Context().Done()
	b.requireLost(l.Err(), fairlock.LostForced)
	b.requireLost(context.Cause(l.Context()), fairlock.LostForced)
	require.Greater(b.t, got.Token(), l.Token())
	require.NoError(b.t, q.ForceUnlock(b.ctx, "x", l.Token(), "again"), "it is safe to repeat")
	require.NoError(b.t, got.Err())
	b.requireLost(l.Unlock(b.ctx), fairlock.LostForced)
	info, err := p.Inspect(b.ctx, "x")
	require.NoError(b.t, err)
	require.Len(b.t, info.Forced, 1)
	f := info.Forced[0]
	require.Equal(b.t, []any{l.Token(), p.Session(), "it hangs"}, []any{f.Token, f.Session, f.Reason})
	require.Contains(b.t, f.By, "operator")
	require.False(b.t, f.At.IsZero())
	b.unlock(got)
	b.unlock(b.lock(p, "x"))
}

func permitByForce(b *bed) {
	p, q := b.process(short), b.process(short)
	sp, sq := b.semaphore(p, 3), b.semaphore(q, 3)
	keeps, loses := b.acquire(sp, 1), b.acquire(sp, 2)
	next := b.waitFor(q, sq, 2)
	b.seen(q, "s", loses.Token())
	require.NoError(b.t, q.ForceUnlock(b.ctx, "s", loses.Token(), "it hangs"))
	got := next.granted()
	<-loses.Context().Done()
	b.requireLost(loses.Err(), fairlock.LostForced)
	require.NoError(b.t, keeps.Err(), "only that grant")
	b.requireLost(loses.Unlock(b.ctx), fairlock.LostForced)
	b.unlock(keeps)
	b.unlock(got)
}

func forceOfNothing(b *bed) {
	p, q := b.process(short), b.process(short)
	require.ErrorIs(b.t, p.ForceUnlock(b.ctx, "x", 1, "r"), fairlock.ErrNotHeld)
	b.untouched(p)
	held := b.lock(p, "x")
	waiting := b.wait(q, "x")
	b.seen(q, "x", held.Token()+1)
	for _, token := range []int64{1, held.Token() - 1, held.Token() + 1, held.Token() + 2, 1 << 62} {
		err := q.ForceUnlock(b.ctx, "x", token, "r")
		require.ErrorIs(b.t, err, fairlock.ErrNotHeld)
		require.ErrorContains(b.t, err, fmt.Sprintf(`"x", token %d`, token))
	}
	b.unlock(held)
	err := q.ForceUnlock(b.ctx, "x", held.Token(), "r")
	require.ErrorIs(b.t, err, fairlock.ErrNotHeld)
	b.unlock(waiting.granted())
	info, err := p.Inspect(b.ctx, "x")
	require.NoError(b.t, err)
	require.Empty(b.t, info.Forced)
}

func badAdminInput(b *bed) {
	p := b.process()
	s := b.semaphore(p, 2)
	for _, permits := range []int64{0, -1, 10_001, 1 << 62} {
		err := s.SetPermits(b.ctx, permits)
		require.ErrorIs(b.t, err, fairlock.ErrInvalidOption)
		require.ErrorContains(b.t, err, fmt.Sprintf("permits is %d: must be from 1 to 10000", permits))
	}
	for _, name := range []string{"", "a\nb", "\tsweep", strings.Repeat("x", 256), "\xff"} {
		require.ErrorIs(b.t, p.RequestRelease(b.ctx, name), fairlock.ErrInvalidName)
		require.ErrorIs(b.t, p.ForceUnlock(b.ctx, name, 1, "r"), fairlock.ErrInvalidName)
	}
	for _, token := range []int64{0, -1} {
		err := p.ForceUnlock(b.ctx, "x", token, "r")
		require.ErrorIs(b.t, err, fairlock.ErrInvalidOption)
		require.ErrorContains(b.t, err, fmt.Sprintf("token is %d: must be positive", token))
	}
	for _, reason := range []string{"", strings.Repeat("x", 256), "\xff"} {
		err := p.ForceUnlock(b.ctx, "x", 1, reason)
		require.ErrorIs(b.t, err, fairlock.ErrInvalidOption)
		require.ErrorContains(b.t, err, "must have 1 to 255 bytes of valid UTF-8")
		require.Less(b.t, len(err.Error()), 300, "bad input must not fill a log")
	}
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	require.ErrorIs(b.t, s.SetPermits(ctx, 1), context.Canceled)
	require.ErrorIs(b.t, p.RequestRelease(ctx, "x"), context.Canceled)
	require.ErrorIs(b.t, p.ForceUnlock(ctx, "x", 1, "r"), context.Canceled)
	b.untouched(p)
}

func delayAfterLoss(b *bed) {
	const delay, hold = 500 * time.Millisecond, 20 * time.Millisecond
	p, q := b.process(func(c *fairlock.Config) { c.LockDelay, c.Margin = delay, time.Millisecond }), b.process()
	began := time.Now()
	l := b.lock(p, "x", fairlock.MaxHold(hold))
	next := b.wait(q, "x")
	<-l.Context().Done()
	got := next.granted()
	require.GreaterOrEqual(b.t, time.Since(began), hold+delay)
	b.requireLost(l.Unlock(b.ctx), fairlock.LostMaxHold)
	b.unlock(got)
}

func noDelayAfterUnlock(b *bed) {
	delayed := func(c *fairlock.Config) { c.LockDelay = time.Hour } // longer than a test may take
	p, q := b.process(delayed), b.process()
	l := b.lock(p, "x")
	next := b.wait(q, "x")
	b.unlock(l)
	b.unlock(next.granted())
	_ = b.lock(p, "x")
	next = b.wait(q, "x")
	require.NoError(b.t, p.Close(b.ctx))
	b.unlock(next.granted())
}
