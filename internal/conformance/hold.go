package conformance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

var holdCases = []testCase{
	{"Unlock may be repeated, also at the same time", unlockRepeated},
	{"Unlock with a context that has ended", unlockEnded},
	{"Unlock passes the lock on inside a process", passedOnInside},
	{"Context has the values and not the end", contextOfLock},
	{"MaxHold passes", maxHoldPasses},
	{"MaxHold of Do", maxHoldOfDo},
	{"Extend moves the end", extendMoves},
	{"Extend of what cannot be extended", extendRefused},
	{"Left is the shortest of the limits", leftIsShortest},
	{"labels are seen", labelsAreSeen},
}

func unlockRepeated(b *bed) {
	p := b.process()
	l := b.lock(p, "x")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := l.Unlock(b.ctx); err != nil {
				b.t.Error(err)
			}
		})
	}
	all.Wait()
	next := b.lock(p, "x")
	require.NoError(b.t, l.Unlock(b.ctx), "it is of another grant")
	require.NoError(b.t, next.Err())
	b.unlock(next)
}

func unlockEnded(b *bed) {
	p, q := b.process(), b.process()
	l := b.lock(p, "x")
	behind := b.wait(q, "x")
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	// It may have been given back before the context was looked at.
	if err := l.Unlock(ctx); err != nil {
		require.ErrorIs(b.t, err, context.Canceled)
	}
	require.ErrorIs(b.t, l.Err(), fairlock.ErrUnlocked)
	b.unlock(behind.granted())
	require.NoError(b.t, l.Unlock(b.ctx), "given back all the same")
}

func passedOnInside(b *bed) {
	p, q := b.process(), b.process()
	held := b.lock(p, "x")
	mine := b.wait(p, "x")
	others := b.wait(q, "x")
	again := b.wait(p, "x")
	b.unlock(held)
	first := mine.granted()
	_, err := q.TryLock(b.ctx, "x")
	require.ErrorIs(b.t, err, fairlock.ErrBusy)
	b.unlock(first)
	second := others.granted()
	require.Greater(b.t, second.Token(), first.Token())
	b.unlock(second)
	third := again.granted()
	require.Greater(b.t, third.Token(), second.Token())
	b.unlock(third)
}

func contextOfLock(b *bed) {
	p := b.process()
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(b.ctx, key{}, "v"))
	l, err := p.Lock(ctx, "x")
	require.NoError(b.t, err)
	cancel()
	require.Equal(b.t, "v", l.Context().Value(key{}))
	require.NoError(b.t, l.Context().Err())
	require.NoError(b.t, l.Err(), "the context was for the wait")
	_, hasDeadline := l.Context().Deadline()
	require.False(b.t, hasDeadline)
	b.unlock(l)
	<-l.Context().Done()
}

func maxHoldPasses(b *bed) {
	p, q := b.process(func(c *fairlock.Config) { c.Margin = 10 * time.Millisecond }), b.process()
	l := b.lock(p, "x", fairlock.MaxHold(20*time.Millisecond))
	next := b.wait(q, "x")
	<-l.Context().Done()
	b.requireLost(l.Err(), fairlock.LostMaxHold)
	b.requireLost(context.Cause(l.Context()), fairlock.LostMaxHold)
	require.ErrorContains(b.t, l.Err(), `"x"`)
	require.Zero(b.t, l.Left())
	got := next.granted() // although it was not unlocked
	require.Greater(b.t, got.Token(), l.Token())
	b.requireLost(l.Unlock(b.ctx), fairlock.LostMaxHold)
	b.requireLost(l.Unlock(b.ctx), fairlock.LostMaxHold)
	require.ErrorIs(b.t, l.Extend(time.Second), fairlock.ErrLost)
	require.NoError(b.t, got.Err(), "Unlock of a lost lock is nobody else's")
	b.unlock(got)
	require.EqualValues(b.t, 1, p.Stats().Lost)
}

func maxHoldOfDo(b *bed) {
	p := b.process()
	broken := errors.New("broken")
	err := p.Do(b.ctx, "x", func(ctx context.Context) error {
		<-ctx.Done()
		b.requireLost(context.Cause(ctx), fairlock.LostMaxHold)
		return broken
	}, fairlock.MaxHold(20*time.Millisecond))
	require.ErrorIs(b.t, err, broken)
	b.requireLost(err, fairlock.LostMaxHold)
	b.unlock(b.lock(p, "x"))
}

func extendMoves(b *bed) {
	p := b.process()
	l := b.lock(p, "x", fairlock.MaxHold(time.Hour))
	require.NoError(b.t, l.Extend(10*time.Second))
	require.LessOrEqual(b.t, l.Left(), 10*time.Second)
	require.NoError(b.t, l.Extend(time.Hour))
	require.Greater(b.t, l.Left(), 10*time.Second, "of a lease of 30 s that is renewed after 10")
	require.NoError(b.t, l.Extend(time.Millisecond))
	<-l.Context().Done()
	b.requireLost(l.Err(), fairlock.LostMaxHold)
	b.requireLost(l.Unlock(b.ctx), fairlock.LostMaxHold)
}

func extendRefused(b *bed) {
	p := b.process()
	l := b.lock(p, "x")
	require.ErrorIs(b.t, l.Extend(time.Second), fairlock.ErrNoMaxHold)
	for _, d := range []time.Duration{0, -time.Second} {
		err := l.Extend(d)
		require.ErrorIs(b.t, err, fairlock.ErrInvalidOption)
		require.ErrorContains(b.t, err, "Extend is "+d.String()+": must be positive")
	}
	require.NoError(b.t, l.Err())
	b.unlock(l)
	require.ErrorIs(b.t, l.Extend(time.Second), fairlock.ErrUnlocked)
}

func leftIsShortest(b *bed) {
	p := b.process(func(c *fairlock.Config) { c.TTL, c.Margin = 20*time.Second, 5*time.Second })
	l := b.lock(p, "x")
	require.Positive(b.t, l.Left())
	require.LessOrEqual(b.t, l.Left(), 15*time.Second, "TTL - Margin")
	b.unlock(l)
	l = b.lock(p, "x", fairlock.MaxHold(10*time.Second))
	require.LessOrEqual(b.t, l.Left(), 10*time.Second)
	b.unlock(l)
}

func labelsAreSeen(b *bed) {
	p, q := b.process(seenSoon, func(c *fairlock.Config) { c.Label = "of p" }), b.process(seenSoon)
	const odd = "a \"label\" with\n\x00 anything: ü"
	held := b.lock(p, "x")
	waiting := b.wait(q, "x", fairlock.Label(odd))
	b.until("both owners", func() bool {
		info, err := p.Inspect(b.ctx, "x")
		require.NoError(b.t, err)
		require.Len(b.t, info.Holders, 1)
		require.Len(b.t, info.Waiters, 1)
		holder, waiter := info.Holders[0].Owner, info.Waiters[0].Owner
		if holder == nil || waiter == nil {
			return false
		}
		require.Equal(b.t, "of p", holder.Label)
		require.Equal(b.t, odd, waiter.Label)
		require.Equal(b.t, p.Session(), holder.Session)
		require.Equal(b.t, q.Session(), waiter.Session)
		require.False(b.t, holder.Dead)
		require.Positive(b.t, holder.LeaseLeft)
		require.Positive(b.t, holder.PID)
		return true
	})
	b.unlock(held)
	b.unlock(waiting.granted())
}
