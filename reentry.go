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
func (l *Lock) mark(ctx context.Context) context.Context {
	key := underKey(l.line.m)
	out, _ := ctx.Value(key).(*under)
	return context.WithValue(ctx, key, &under{l, out})
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
