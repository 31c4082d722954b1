package fairlock

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/queue"
)

// underKey is the key of a context's value by which a lock of a manager is known under it: a *under. A pointer type, so that asking costs no
// allocation.
type underKey *Manager

// under is a lock whose context something runs under, and those further out.
type under struct {
	lock *Lock
	out  *under
}

// mark makes a context one of those that the lock is known under.
func (l *Lock) mark(ctx context.Context) context.Context { return mark(ctx, l) }

// mark is Lock.mark for several locks of one manager.
func mark(ctx context.Context, locks ...*Lock) context.Context {
	key := underKey(locks[0].line.m)
	u, _ := ctx.Value(key).(*under)
	for _, l := range locks {
		u = &under{l, u}
	}
	return context.WithValue(ctx, key, u)
}

// reentry refuses a call that could only wait for its own caller: the context ends when the lock that is asked for is given back, so
// nothing good can come of waiting for it. A semaphore may have more permits.
func (m *Manager) reentry(ctx context.Context, name string, d demand) error {
	u, _ := ctx.Value(underKey(m)).(*under)
	for ; u != nil; u = u.out {
		l := u.lock
		if l.line.name != name || d.shape.Kind == queue.KindSemaphore || l.Err() != nil {
			continue
		}
		err := ErrReentrant
		if d == writer && l.claim.units == reader.units {
			err = ErrUpgrade
		}
		return fmt.Errorf("%w: %q, token %d", err, name, l.Token())
	}
	return nil
}
