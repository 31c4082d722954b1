package gateway

import (
	"context"
	"errors"

	"github.com/fairlock/fairlock"
)

// run is the life of a lease: the wait, the hold, the return. It is the lease's goroutine.
func (l *lease) run() {
	defer l.inLine() // refused before
	lock := l.wait()
	if lock == nil {
		return
	}
	l.hold(lock)
	l.giveBack(lock)
}

// wait returns the lock if the lease holds it now.
func (l *lease) wait() *fairlock.Lock {
	lock, err := l.take()
	if l.granted(lock, err) {
		return lock
	}
	if lock != nil {
		// Granted and given up at the same time. Nobody was told of the grant, and nobody waits for what Unlock says.
		_ = lock.Unlock(l.s.base)
	}
	return nil
}

// granted takes in the outcome of take, and reports whether it is a hold.
func (l *lease) granted(lock *fairlock.Lock, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state != waiting: // left meanwhile
		return false
	case err != nil:
		l.leaveLocked(reasonOfRefusal(err), ofError(err))
		return false
	}
	l.lock, l.token = lock, lock.Token()
	if l.open > 0 {
		l.heardLocked(0)
	}
	l.moveLocked(held, "")
	return true
}

// take is the call of the manager.
func (l *lease) take() (*fairlock.Lock, error) {
	a, m := &l.ask, l.s.m
	opts := append(a.options(), fairlock.Label(l.label()), fairlock.InLine(l.inLine))
	switch a.kind {
	case semaphore:
		sem, err := m.Semaphore(a.name, a.permits)
		if err != nil {
			return nil, err
		}
		if a.try {
			return sem.TryAcquire(l.ctx, a.units, opts...)
		}
		return sem.Acquire(l.ctx, a.units, opts...)
	case read, write:
		rw, err := m.RWLock(a.name)
		if err != nil {
			return nil, err
		}
		take := map[bool]map[string]func(context.Context, ...fairlock.Option) (*fairlock.Lock, error){
			false: {read: rw.RLock, write: rw.Lock},
			true:  {read: rw.TryRLock, write: rw.TryLock},
		}[a.try][a.kind]
		return take(l.ctx, opts...)
	}
	if a.try {
		return m.TryLock(l.ctx, a.name, opts...)
	}
	return m.Lock(l.ctx, a.name, opts...)
}

// label is what others see beside the place in line.
func (l *lease) label() string {
	switch name := l.key.client; {
	case name == "":
		return l.ask.label
	case l.ask.label == "":
		return name
	default:
		return name + "/" + l.ask.label
	}
}

func reasonOfRefusal(err error) reason {
	switch {
	case errors.Is(err, fairlock.ErrBusy):
		return isBusy
	case errors.Is(err, fairlock.ErrWaitLimit):
		return waitLimit
	case errors.Is(err, fairlock.ErrMismatch):
		return mismatched
	case errors.Is(err, fairlock.ErrTooManyWaiters):
		return tooMany
	case errors.Is(err, fairlock.ErrInvalidOption):
		return refused
	case errors.Is(err, fairlock.ErrClosed):
		return isClosing
	}
	return database
}

// hold returns when the hold is over.
func (l *lease) hold(lock *fairlock.Lock) {
	under := lock.Context()
	select {
	case <-under.Done():
	case <-l.ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.judgeLocked()
}

// giveBack returns the lock to its queue. One that was lost by fairlock's judgement is left to the manager, which gives the holder Config.Margin to
// stop before it lets anybody in; its holder can say that he has stopped by DELETE. Of one that the gateway has ended the client knows by leftMs
// that it is over. When it ends for closing, that time is not over, and the next holder may be anywhere: the client has the rest of it, unless it says that it
// has stopped, or holds by a stream and was sent its end. That an answer to a heartbeat has said so is not enough: answers are lost.
func (l *lease) giveBack(lock *fairlock.Lock) {
	l.mu.Lock()
	state, why := l.state, l.why
	l.mu.Unlock()
	switch {
	case state == lost && why != notHeard && why != isClosing:
		return // with l.lock, for stopped
	case state == lost && why == isClosing:
		alone := l.believes()
		select {
		case <-l.stop:
		case <-alone.C:
		case <-l.s.base.Done(): // Close gives up
		}
		alone.Stop()
	}
	err := lock.Unlock(l.s.base)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lock = nil
	switch {
	case state == lost:
	case errors.Is(err, fairlock.ErrLost):
		l.moveLocked(lost, reasonOfLoss(err))
	case err != nil:
		l.moveLocked(released, unsure)
	default:
		l.moveLocked(released, "")
	}
}
