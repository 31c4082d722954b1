package fairlock

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/queue"
)

// Semaphore lets several hold at a time, up to a number of permits, in the order in which they came: a request for many permits
// is never passed by one for few that came later. It is safe for concurrent use, and costs nothing to make.
type Semaphore struct {
	m     *Manager
	name  string
	shape queue.Shape
}

// Semaphore returns the semaphore called name, with permits from 1 to 10,000. It makes no database call. All who use the semaphore name the same
// permits, until they are changed by [Semaphore.SetPermits], after which what they name does not count; calls of those who
// name others get [ErrMismatch]. Names of semaphores, read/write locks and mutexes are the same names: one cannot be two of
// them.
func (m *Manager) Semaphore(name string, permits int64) (*Semaphore, error) {
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	if err := checkPermits(permits); err != nil {
		return nil, err
	}
	return &Semaphore{m, name, queue.Shape{Kind: queue.KindSemaphore, Permits: permits}}, nil
}

func checkPermits(permits int64) error {
	if permits < 1 || permits > queue.MostPermits {
		return invalidOption("permits", permits, fmt.Sprintf("must be from 1 to %d", queue.MostPermits))
	}
	return nil
}

// Name is the semaphore's name.
func (s *Semaphore) Name() string { return s.name }

// Acquire takes n permits, all at once, and waits for them in line if it must; see [Manager.Lock], which it is otherwise like. n is at least 1
// and at most the semaphore's permits. Whoever asks for many waits until as many are free, and those behind him wait with him.
// They are given back together by [Lock.Unlock] or in parts by [Lock.Release].
func (s *Semaphore) Acquire(ctx context.Context, n int64, opts ...Option) (*Lock, error) {
	return s.acquire(ctx, n, opts, false)
}

// TryAcquire takes n permits if they are free and nobody waits, and otherwise returns [ErrBusy] at once; see [Manager.TryLock].
func (s *Semaphore) TryAcquire(ctx context.Context, n int64, opts ...Option) (*Lock, error) {
	return s.acquire(ctx, n, opts, true)
}

func (s *Semaphore) acquire(ctx context.Context, n int64, opts []Option, try bool) (*Lock, error) {
	o, err := s.m.options(ctx, s.name, opts)
	if err != nil {
		return nil, err
	}
	if n < 1 || n > queue.MostPermits {
		return nil, invalidOption("units", n, fmt.Sprintf("must be from 1 to %d", queue.MostPermits))
	}
	o.ask = demand{s.shape, n}
	return s.m.acquire(ctx, s.name, o, try)
}
