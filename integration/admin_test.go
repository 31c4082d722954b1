package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock"
)

// TestSetPermitsWakesWaiters of other processes, by the change event of the one write.
func TestSetPermitsWakesWaiters(t *testing.T) {
	t.Parallel()
	b := newBedAt(t, sharedURI)
	t.Cleanup(func() { _ = b.db.Drop(context.Background()) }) // a managed semaphore is never idle
	ctx := withLimit(t)
	p, q := b.manager(fairlock.Config{}), b.manager(fairlock.Config{})
	sem := func(m *fairlock.Manager, permits int64) *fairlock.Semaphore {
		s, err := m.Semaphore("s", permits)
		require.NoError(t, err)
		return s
	}
	held, err := sem(p, 1).Acquire(ctx, 1)
	require.NoError(t, err)
	const waiters = 3
	granted := make(chan *fairlock.Lock, waiters)
	for range waiters {
		go func() {
			if l, err := sem(q, 1).Acquire(ctx, 1); err == nil {
				granted <- l
			}
		}()
	}
	b.requireWaiters(ctx, p, "s", waiters)
	require.NoError(t, sem(p, 7).SetPermits(ctx, 3))
	one, two := <-granted, <-granted
	b.requireWaiters(ctx, p, "s", 1)
	require.NoError(t, one.Unlock(ctx))
	require.NoError(t, two.Unlock(ctx))
	require.NoError(t, (<-granted).Unlock(ctx))
	require.Zero(t, q.Stats().GrantsByRecheck, "an event says it")
	info, err := q.Inspect(ctx, "s")
	require.NoError(t, err)
	require.True(t, info.Managed)
	require.EqualValues(t, 3, info.Permits)
	_, err = sem(q, 1).Acquire(ctx, 4)
	require.ErrorIs(t, err, fairlock.ErrTooBig)
	require.NoError(t, held.Unlock(ctx))
	require.ErrorIs(t, failure(q.Lock(ctx, "s")), fairlock.ErrMismatch)
}

// requireWaiters waits until so many places wait.
func (b *bed) requireWaiters(ctx context.Context, m *fairlock.Manager, name string, n int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		info, err := m.Inspect(ctx, name)
		return err == nil && len(info.Waiters)+int(info.More) == n
	}, limit, 20*time.Millisecond)
}

// TestForceUnlockOfALiveHolder: the next is admitted, the holder is told by its renewal, and the entry says who, when and why.
func TestForceUnlockOfALiveHolder(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	holder, other, operator := b.manager(fairlock.Config{TTL: 6 * time.Second}), b.manager(fairlock.Config{}), b.manager(fairlock.Config{Label: "$night shift"})
	l, err := holder.Lock(ctx, "x")
	require.NoError(t, err)
	next := make(chan *fairlock.Lock, 1)
	go func() {
		if l, err := other.Lock(ctx, "x"); err == nil {
			next <- l
		}
	}()
	b.requireWaiters(ctx, operator, "x", 1)
	require.Eventually(t, func() bool { // as soon as the ticket says whose it is
		return operator.ForceUnlock(ctx, "x", l.Token(), "$hangs since 3") == nil
	}, limit, 50*time.Millisecond)
	got := <-next
	require.Greater(t, got.Token(), l.Token())
	select {
	case <-l.Context().Done():
	case <-ctx.Done():
		require.Fail(t, "the holder is not told")
	}
	var lost *fairlock.LostError
	require.ErrorAs(t, l.Err(), &lost)
	require.Equal(t, fairlock.LostForced, lost.Reason)
	require.NoError(t, got.Err())
	require.ErrorIs(t, operator.ForceUnlock(ctx, "x", got.Token()+1, "r"), fairlock.ErrNotHeld)
	require.NoError(t, got.Unlock(ctx))
	require.ErrorIs(t, operator.ForceUnlock(ctx, "x", got.Token(), "r"), fairlock.ErrNotHeld)
	info, err := other.Inspect(ctx, "x")
	require.NoError(t, err)
	require.Len(t, info.Forced, 1)
	require.Equal(t, []any{l.Token(), holder.Session(), "$hangs since 3"}, []any{info.Forced[0].Token, info.Forced[0].Session, info.Forced[0].Reason})
	require.Contains(t, info.Forced[0].By, "$night shift")
	require.ErrorIs(t, l.Unlock(ctx), fairlock.ErrLost)
}

func TestRequestReleaseIsHeard(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	holder, other := b.manager(fairlock.Config{}), b.manager(fairlock.Config{})
	require.ErrorIs(t, other.RequestRelease(ctx, "x"), fairlock.ErrNotHeld)
	l, err := holder.Lock(ctx, "x")
	require.NoError(t, err)
	asked := l.Requested()
	require.NoError(t, other.RequestRelease(ctx, "x"))
	select {
	case <-asked:
	case <-ctx.Done():
		require.Fail(t, "the holder does not hear of it")
	}
	require.NoError(t, l.Unlock(ctx))
	n, err := b.coll("locks").CountDocuments(ctx, bson.D{{Key: "request.n", Value: 1}})
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}
