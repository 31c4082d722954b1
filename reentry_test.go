package fairlock

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
)

func TestALockUnderItsOwnContextIsRefused(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		l := p.lock("x")
		_, err := p.Lock(l.Context(), "x")
		require.ErrorIs(b.t, err, ErrReentrant)
		other, err := p.Lock(l.Context(), "y")
		require.NoError(b.t, err)
		_, err = p.Lock(other.Context(), "x")
		require.ErrorIs(b.t, err, ErrReentrant, "further out")
		_, err = p.TryLock(l.Context(), "x")
		require.ErrorIs(b.t, err, ErrBusy)
		b.unlock(other)
		waits := b.attempt(func(context.Context) (*Lock, error) { return q.Lock(l.Context(), "x") })
		require.False(b.t, waits.over(), "another manager is another caller")
		b.unlock(l)
		require.ErrorIs(b.t, waits.failed(), context.Canceled, "its context was that of the lock")
		err = p.Do(b.ctx, "x", func(ctx context.Context) error {
			_, err := p.Lock(ctx, "x")
			return err
		})
		require.ErrorIs(b.t, err, ErrReentrant)
	})
}

func TestReadLocksAreNotUpgraded(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		rw, err := p.RWLock("x")
		require.NoError(b.t, err)
		r, err := rw.RLock(b.ctx)
		require.NoError(b.t, err)
		_, err = rw.Lock(r.Context())
		require.ErrorIs(b.t, err, ErrUpgrade)
		_, err = rw.RLock(r.Context())
		require.ErrorIs(b.t, err, ErrReentrant, "behind a writer who waits it would wait for itself")
		b.unlock(r)
		w, err := rw.Lock(b.ctx)
		require.NoError(b.t, err)
		_, err = rw.RLock(w.Context())
		require.ErrorIs(b.t, err, ErrReentrant)
		b.unlock(w)
	})
}

func TestSemaphoreUnderItsOwnContext(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		s, err := p.Semaphore("x", 2)
		require.NoError(b.t, err)
		one, err := s.Acquire(b.ctx, 1)
		require.NoError(b.t, err)
		two, err := s.Acquire(one.Context(), 1)
		require.NoError(b.t, err)
		b.unlock(one)
		b.unlock(two)
	})
}

// TestACallThatIsRefusedDoesNotRefuseOthers: two callers of one process mean different kinds, and one of them is right.
func TestACallThatIsRefusedDoesNotRefuseOthers(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		held := q.lock("x")
		gate := memstore.NewGate()
		remove := p.store.Hook(memstore.Before, memstore.OpEnqueue, gate.Pass)
		wrong := p.beginAcquire(p.semaphore("x", 3), 1)
		right := p.begin("x")
		also := p.beginAcquire(p.semaphore("x", 4), 1)
		require.Equal(b.t, &queue.MismatchError{Name: "x", Want: queue.Shape{Kind: queue.KindSemaphore, Permits: 4}, Have: queue.Mutex}, also.failed())
		remove()
		gate.Open()
		require.ErrorIs(b.t, wrong.failed(), ErrMismatch)
		b.unlock(held)
		b.unlock(right.granted())
		b.requireIdle("x")
	})
}

func TestASetUnderItsOwnContextIsRefused(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		s := p.all(nil, "a", "b")
		for _, name := range s.Names() {
			_, err := p.Lock(s.Context(), name)
			require.ErrorIs(b.t, err, ErrReentrant)
		}
		_, err := p.LockAll(s.Context(), []string{"0", "b"})
		require.ErrorIs(b.t, err, ErrReentrant)
		other, err := p.Lock(s.Context(), "c")
		require.NoError(b.t, err)
		b.unlock(other)
		require.NoError(b.t, s.Unlock(b.ctx))
		b.requireIdle("0")
	})
}
