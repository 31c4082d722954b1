package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/queue"
)

// TestMaxWaiters: whoever would be one too many in the queue of a lock is refused before a number is taken, whatever process the others
// are of; and there is room again when one gives up.
func TestMaxWaiters(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	cfg := fairlock.Config{MaxWaiters: 3, TicketDelay: 50 * time.Millisecond}
	one, two := b.manager(cfg), b.manager(cfg)
	held, err := one.Lock(ctx, "x")
	require.NoError(t, err)

	var waiting errgroup.Group
	leave, left := context.WithCancel(ctx)
	for i := range 3 {
		m, ctx := []*fairlock.Manager{one, two}[i%2], ctx
		if i == 1 {
			ctx = leave
		}
		waiting.Go(func() error {
			err := m.Do(ctx, "x", func(context.Context) error { return nil })
			if leave.Err() != nil && errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		})
		b.awaitWaiters(one, "x", i+1)
	}
	issued := func() int64 {
		info, err := one.Inspect(ctx, "x")
		require.NoError(t, err)
		return info.LastToken
	}
	before := issued()
	for _, m := range []*fairlock.Manager{one, two} {
		_, err = m.Lock(ctx, "x")
		var full *queue.TooManyWaitersError
		require.ErrorIs(t, err, fairlock.ErrTooManyWaiters)
		require.True(t, errors.As(err, &full))
		require.Equal(t, queue.TooManyWaitersError{Name: "x", Limit: 3, Waiting: 3, Everywhere: true}, *full)
		require.EqualError(t, err, `fairlock: too many waiters: lock "x" has 3, the limit is 3`)
	}
	require.Equal(t, before, issued(), "no number was taken")
	_, err = b.manager(fairlock.Config{}).TryLock(ctx, "x")
	require.ErrorIs(t, err, fairlock.ErrBusy)

	left() // out of order: its number is above settled
	b.awaitWaiters(one, "x", 2)
	waiting.Go(func() error { return two.Do(ctx, "x", func(context.Context) error { return nil }) })
	b.awaitWaiters(one, "x", 3)
	_, err = one.Lock(ctx, "x")
	require.ErrorIs(t, err, fairlock.ErrTooManyWaiters)
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, waiting.Wait())
}

// TestMaxWaitersInOneProcess: of a crowd that calls at one time the first are let in, as many as fit.
func TestMaxWaitersInOneProcess(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{MaxWaiters: 5})
	held, err := m.Lock(ctx, "x")
	require.NoError(t, err)
	results := make(chan error, 50)
	for range cap(results) {
		go func() { results <- m.Do(ctx, "x", func(context.Context) error { return nil }) }()
	}
	for range cap(results) - 5 {
		require.ErrorIs(t, <-results, fairlock.ErrTooManyWaiters)
	}
	info, err := m.Inspect(ctx, "x")
	require.NoError(t, err)
	require.Equal(t, held.Token()+5, info.LastToken, "no number was taken for the others")
	require.NoError(t, held.Unlock(ctx))
	for range 5 {
		require.NoError(t, <-results)
	}
}

// TestMaxCalls: one process's own limit, over all locks. Nothing is asked of the database for a call that is refused.
func TestMaxCalls(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{MaxCalls: 2})
	other := b.manager(fairlock.Config{})
	var held []*fairlock.Lock
	for i := range 2 {
		l, err := other.Lock(ctx, fmt.Sprint(i))
		require.NoError(t, err)
		held = append(held, l)
	}
	var waiting errgroup.Group
	for i := range 2 {
		waiting.Go(func() error { return m.Do(ctx, fmt.Sprint(i), func(context.Context) error { return nil }) })
		b.awaitWaiters(other, fmt.Sprint(i), 1)
	}
	writes := m.Stats().Enqueues
	_, err := m.Lock(ctx, "free")
	require.ErrorIs(t, err, fairlock.ErrTooManyWaiters)
	require.ErrorContains(t, err, "this manager has 2 calls that wait, the limit is 2")
	require.Equal(t, writes, m.Stats().Enqueues)
	l, err := m.TryLock(ctx, "free")
	require.NoError(t, err, "which does not wait")
	require.NoError(t, l.Unlock(ctx))
	for _, l := range held {
		require.NoError(t, l.Unlock(ctx))
	}
	require.NoError(t, waiting.Wait())
	require.NoError(t, m.Do(ctx, "free", func(context.Context) error { return nil }))
}
