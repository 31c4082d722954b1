package fairlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// mostNames bounds the names of one LockAll.
const mostNames = 1000

// Set is several locks that were taken together. It is safe for concurrent use. Losing one of them is losing all.
type Set struct {
	locks []*Lock // by name

	ctx    context.Context
	cancel context.CancelCauseFunc
	stops  []func() bool // of the watches on each lock's context
}

// LockAll takes the locks with the names, all or none. Whoever else takes several of them, in whatever order he names them, waits for
// them in the same order, that of their bytes, so no two callers can wait for each other. A caller that waits for one keeps those
// before it in that order; those who wait for these wait as well. Where a process died that had several of them and whose tickets were not written
// yet (Config.TicketDelay), each can cost a lease, since nobody watches a lock that nobody waits for yet.
//
// names has 1 to 1000 valid names, none of them twice. MaxWait bounds the whole call, and MaxHold the time from its return. On any error
// nothing is held, and places in line are given up in the background, as with [Manager.Lock], whose errors it returns.
func (m *Manager) LockAll(ctx context.Context, names []string, opts ...Option) (*Set, error) {
	sorted := slices.Sorted(slices.Values(names))
	switch {
	case len(sorted) == 0:
		return nil, invalidOption("names", "none", "must be at least one")
	case len(sorted) > mostNames:
		return nil, invalidOption("names", len(sorted), fmt.Sprintf("must be at most %d", mostNames))
	}
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return nil, invalidOption("names", quoted(sorted[i]), "must not be named twice")
		}
	}
	var each []*options
	for _, name := range sorted {
		o, err := m.options(ctx, name, opts)
		if err != nil {
			return nil, err
		}
		each = append(each, o)
	}
	maxWait, maxHold := each[0].maxWait, each[0].maxHold
	began := m.clock.Now()
	s := &Set{}
	all := false
	defer func() {
		if !all { // also when a function of the user's has panicked
			s.giveUp()
		}
	}()
	wait, stop := context.WithCancelCause(ctx) // ends also when one that is held already is lost
	defer stop(nil)
	for i, name := range sorted {
		o := each[i]
		o.maxHold = 0
		if maxWait > 0 {
			// Not below 1: zero would be no limit.
			o.maxWait = max(maxWait-m.clock.Now().Sub(began), 1)
		}
		l, err := m.acquire(wait, name, o, false)
		if err == nil {
			s.locks = append(s.locks, l)
			under := l.Context()
			defer context.AfterFunc(under, func() { stop(context.Cause(under)) })()
		}
		if lost := s.Err(); lost != nil {
			err = lost
		}
		if err != nil {
			return nil, err
		}
	}
	all = true
	for _, l := range s.locks {
		l.set = s // nobody else knows the lock yet
	}
	s.ctx, s.cancel = context.WithCancelCause(mark(context.WithoutCancel(ctx), s.locks...))
	for _, l := range s.locks {
		if maxHold > 0 {
			l.limitHold(maxHold)
		}
	}
	for _, l := range s.locks {
		under := l.Context()
		s.stops = append(s.stops, context.AfterFunc(under, func() { s.end(context.Cause(under)) }))
	}
	return s, nil
}

// giveUp gives back what an unfinished LockAll holds, in the background.
func (s *Set) giveUp() {
	for _, l := range s.locks {
		l.line.mu.Lock()
		l.line.abandonLocked(l.claim)
		l.line.mu.Unlock()
	}
}

// end takes in that one of the locks has ended. When it was lost, so are the others by now, and the one that was lost first says why.
func (s *Set) end(cause error) {
	if err := s.Err(); errors.Is(err, ErrLost) {
		cause = err
	}
	s.cancel(cause)
}

// Names are the names of the locks, sorted.
func (s *Set) Names() []string {
	names := make([]string, len(s.locks))
	for i, l := range s.locks {
		names[i] = l.Name()
	}
	return names
}

// Lock is the lock with a name, for its token; nil when it is not one of the set. Unlocking it unlocks only it, and ends the set's
// context; Unlock of the set does the rest.
func (s *Set) Lock(name string) *Lock {
	i, found := slices.BinarySearchFunc(s.locks, name, func(l *Lock, name string) int {
		switch {
		case l.Name() < name:
			return -1
		case l.Name() > name:
			return 1
		}
		return 0
	})
	if !found {
		return nil
	}
	return s.locks[i]
}

// Context is cancelled when one of the locks is lost or unlocked; see [Lock.Context].
func (s *Set) Context() context.Context { return s.ctx }

// Err is nil while all are held; see [Lock.Err]. When one was lost it is that loss, and the others are lost with it.
func (s *Set) Err() error {
	var loss *LostError
	var unlocked error
	for _, l := range s.locks {
		err := l.Err()
		var lost *LostError
		switch {
		case err == nil:
		case !errors.As(err, &lost):
			unlocked = err
		case loss == nil || loss.Reason == LostOther:
			loss = lost
		}
	}
	if loss == nil {
		return unlocked
	}
	for _, other := range s.locks {
		other.lose(LostOther)
	}
	return loss
}

// Left is the shortest [Lock.Left] of the locks.
func (s *Set) Left() time.Duration {
	left := s.locks[0].left()
	for _, l := range s.locks[1:] {
		left = min(left, l.left())
	}
	return left
}

// Unlock gives all back at the same time, and returns when all are; see [Lock.Unlock]. It returns nil when all were held until this call.
func (s *Set) Unlock(ctx context.Context) error {
	_ = s.Err() // a loss that nobody has noticed yet is that of all
	for _, stop := range s.stops {
		stop()
	}
	s.cancel(ErrUnlocked)
	errs := make([]error, len(s.locks))
	var all sync.WaitGroup
	for i, l := range s.locks {
		all.Go(func() { errs[i] = l.Unlock(ctx) })
	}
	all.Wait()
	// The one that was lost first says why; the others only that it was.
	for _, err := range errs {
		var lost *LostError
		if errors.As(err, &lost) && lost.Reason != LostOther {
			return err
		}
	}
	return errors.Join(errs...)
}
