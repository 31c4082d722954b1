package fairlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/queue"
)

// Lock takes the lock called name, and waits for it in line if it must. Whoever called first, here or in another
// process, gets it first: the order is that in which the database committed the arrivals.
//
// When ctx ends, or the limit of [MaxWait] passes, it returns an error that matches that of ctx or [ErrWaitLimit];
// its place in line is given up in the background and delays nobody. If the lease of this process runs out while it waits,
// it keeps its place when the lease can still be renewed, and otherwise queues again at the end.
//
// Other errors: [ErrInvalidName], [ErrInvalidOption], [ErrMismatch], [ErrClosed], [ErrTooManyWaiters], and what the database refuses
// for good: [ErrPrivilege], [ErrMalformed]. A privilege that is taken away while Lock waits ends the wait when a write needs it. While the database cannot be reached, Lock goes on trying until ctx ends and
// names the reason then.
func (m *Manager) Lock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	o, err := m.options(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return m.acquire(ctx, name, o, false)
}

// TryLock takes the lock if it is free and nobody waits for it, and otherwise returns [ErrBusy] at once. It never overtakes
// anybody. A refusal takes no number and changes nothing in the database. ctx bounds the call, and so does the lease: when the database has not answered
// for TTL less Margin, TryLock returns the failure, and what it may have taken is given back. [MaxWait] has no effect.
//
// The lock of a process that has died becomes free for TryLock when somebody has noticed: within a lease if anybody waits
// for it, within about two and a half leases otherwise.
func (m *Manager) TryLock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	o, err := m.options(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return m.acquire(ctx, name, o, true)
}

// Do runs fn while it holds the lock, and gives it back when fn returns or panics. The context that fn gets ends with ctx, and
// when the lock is lost (its cause is then a [*LostError]). The error is that of taking the lock, or that of fn; when
// the lock was lost before fn returned, it matches [ErrLost] too, whatever fn returned.
func (m *Manager) Do(ctx context.Context, name string, fn func(context.Context) error, opts ...Option) (err error) {
	lock, err := m.Lock(ctx, name, opts...)
	if err != nil {
		return err
	}
	held, cancel := context.WithCancelCause(lock.mark(lock.given()))
	under := lock.Context()
	stop := context.AfterFunc(under, func() { cancel(context.Cause(under)) })
	defer func() {
		stop()
		cancel(ErrUnlocked)
		end, release := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.OpTimeout)
		defer release()
		err = errors.Join(err, lock.Unlock(end))
	}()
	return fn(held)
}

func (m *Manager) options(ctx context.Context, name string, opts []Option) (*options, error) {
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	o := &options{parent: ctx, ask: mutex}
	for _, opt := range opts {
		if err := opt(o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// demand is what a call asks for: units of a lock of some shape.
type demand struct {
	shape queue.Shape
	units int64
}

var mutex = demand{queue.Mutex, 1}

func (m *Manager) acquire(ctx context.Context, name string, o *options, try bool) (*Lock, error) {
	if m.observing == nil || name == sweepName {
		return m.take(ctx, name, o, try)
	}
	return m.observing.acquire(ctx, name, o, try)
}

func (m *Manager) take(ctx context.Context, name string, o *options, try bool) (*Lock, error) {
	if err := ctx.Err(); err != nil {
		return nil, &waitError{name: name, cause: err}
	}
	if !try {
		if err := m.reentry(ctx, name, o.ask); err != nil {
			return nil, err
		}
	}
	if err := m.fits(ctx, name, o.ask); err != nil {
		return nil, err
	}
	began := time.Now()
	if !try {
		if err := m.countIn(name); err != nil {
			return nil, err
		}
		defer m.calls.Add(-1)
	}
	l, err := m.enter(name, o.ask.shape)
	if errors.Is(err, ErrMismatch) {
		l, err = m.enterBeside(ctx, name, o.ask.shape)
	}
	if err != nil {
		return nil, err
	}
	defer m.tasks.done()
	c := &claim{units: o.ask.units, try: try, opts: o, ready: make(chan struct{})}
	l.mu.Lock()
	l.calls++
	c.call = l.calls
	if try {
		l.try(c)
	} else {
		l.pending = append(l.pending, c)
		l.ask()
	}
	l.mu.Unlock()
	if o.inLine != nil {
		l.placedBy(c, o.inLine)
	}

	var limit <-chan time.Time
	if o.maxWait > 0 && !try {
		timer := time.NewTimer(o.maxWait)
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-c.ready:
		return c.lock, c.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit:
		err = ErrWaitLimit
	}
	return nil, &waitError{name: name, waited: time.Since(began), cause: err, last: l.abandon(c)}
}

// placedBy calls the user's function that wants to know of the place in line, outside the mutex. If it panics, or ends the goroutine, nobody is left to take the
// lock.
func (l *line) placedBy(c *claim, user func()) {
	returned := false
	defer func() {
		if !returned {
			_ = l.abandon(c)
		}
	}()
	user()
	returned = true
}

// countIn counts a call that may wait, unless there are as many as MaxCalls.
func (m *Manager) countIn(name string) error {
	for {
		n := m.calls.Load()
		if most := int64(m.cfg.MaxCalls); most > 0 && n >= most {
			return &queue.TooManyWaitersError{Name: name, Limit: most, Waiting: n}
		}
		if m.calls.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

// abandon gives up a claim, whatever became of it meanwhile: a grant that came at the same time is handed back. The database is
// told in the background. It returns the newest failure on the line's behalf.
func (l *line) abandon(c *claim) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abandonLocked(c)
	return l.lastErr
}

func (l *line) abandonLocked(c *claim) {
	switch c.state {
	case pending, asked:
		c.move(over)
		l.m.unref(l)
	case held:
		c.lock.discard()
		l.release(c)
	case queued:
		l.release(c)
	}
}

// try asks for a number only if it is admitted at once. Anybody of this process who waits or holds stands before it. The
// caller holds mu.
func (l *line) try(c *claim) {
	busy := l.asking || len(l.pending) > 0
	for _, r := range l.runs {
		busy = busy || l.exclusive() || r.waits()
	}
	if busy {
		l.failLocked(c, fmt.Errorf("fairlock: lock %q: %w", l.name, ErrBusy))
		return
	}
	c.move(asked)
	l.asking = true
	l.m.ref(l)
	before := l.shown
	l.m.spawn(func() {
		began := l.m.clock.Now()
		err := l.tryNow(c, before)
		if err != nil && !errors.Is(err, ErrBusy) && !queue.Permanent(err) {
			err = fmt.Errorf("fairlock: lock %q not taken after %v: %w", l.name, l.m.clock.Now().Sub(began), err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil {
			if c.state == asked {
				l.failLocked(c, err)
			}
			l.asking = false
			l.ask()
		}
		l.m.unref(l)
	})
}

// tryNow makes the arrival of a try, and ends the asking unless it fails. before is as for placed.
func (l *line) tryNow(c *claim, before int64) error {
	m := l.m
	lease, err := m.session()
	if err != nil {
		return err
	}
	sent := m.clock.Now()
	place, err := l.arrive(c.units, c.units, 0, func(ctx context.Context, a queue.Arrival) (queue.Place, error) {
		place, admitted, err := m.queue.Try(ctx, l.name, l.shape, a)
		if err == nil && !admitted {
			err = fmt.Errorf("fairlock: lock %q: %w", l.name, ErrBusy)
		}
		return place, err
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Over before the caller is told: its next try must not be refused because of this one.
	l.asking = false
	l.placed([]*claim{c}, place, lease, sent, before)
	l.ask()
	if c.state == queued && l.looking {
		// It is admitted, and granted as soon as it is known which of our other numbers are settled.
		looks := l.looks
		l.mu.Unlock()
		<-looks
		l.mu.Lock()
	}
	if c.state != held && c.state != over {
		// Admitted by the server, but the lease broke meanwhile: not to be waited for.
		l.abandonLocked(c)
		c.err = errNotTrusted
		close(c.ready)
	}
	return nil
}
