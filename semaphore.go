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

// Acquire takes n permits, all at once, and waits for them in line if it must; see [Manager.Lock], which it is otherwise like. n is from 1
// to 10,000; more than the semaphore has permits is [ErrTooBig]. Whoever asks for many waits until as many are free, and those behind him wait with him.
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

// fits refuses a call for more units than there are, unless there are more than its caller knows of.
func (m *Manager) fits(ctx context.Context, name string, d demand) error {
	if d.units <= d.shape.Permits {
		return nil
	}
	permits, err := (&Semaphore{m, name, d.shape}).Permits(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return &waitError{name: name, cause: ctx.Err(), last: err}
	case err == nil && d.units > permits:
		return &queue.TooBigError{Name: name, Units: d.units, Permits: permits}
	}
	return err
}

// Permits is how many permits the semaphore has, as the database says: those that were set by SetPermits, or else those that it was made with.
func (s *Semaphore) Permits(ctx context.Context) (int64, error) {
	v, found, err := s.m.queue.View(ctx, s.name)
	switch {
	case err != nil:
		return 0, err
	case found && !v.Agrees(s.shape):
		return 0, &queue.MismatchError{Name: s.name, Want: s.shape, Have: v.Shape()}
	case found:
		return v.Permits, nil
	}
	return s.shape.Permits, nil
}

// SetPermits changes the permits for all who use the semaphore, now and later, whatever number they name: from then on the database's document
// says it, and is kept also while nobody uses it. With more, those who wait and now fit are admitted at once, in order. With fewer, nobody loses
// anything: as long as more are held than there are permits nobody is admitted. Calls that wait for more units than there are any more get
// [ErrTooBig], within a few seconds.
//
// permits is from 1 to 10,000. A lock of another kind is [ErrMismatch], and is not changed. On any other error the permits may
// have been changed or not; the call may be repeated.
func (s *Semaphore) SetPermits(ctx context.Context, permits int64) error {
	if err := checkPermits(permits); err != nil {
		return err
	}
	return s.m.queue.SetPermits(ctx, s.name, permits)
}
