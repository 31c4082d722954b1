package fairlock

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/queue"
)

// Units is how many units are held: 1 of a mutex and of a read lock, all that there are of a write lock, and of a semaphore as many as were
// acquired and not given back yet.
func (l *Lock) Units() int64 {
	l.line.mu.Lock()
	defer l.line.mu.Unlock()
	return l.claim.units
}

// Release gives back n of the units of a semaphore and keeps the others, and waits until a majority of the database has it; [Lock.Unlock]
// gives back what is left. n is at least 1 and less than Units. The token stays the same.
//
// Of a lock that was lost or unlocked before it returns the error of [Lock.Err]. When ctx ends first it returns that error, and
// the units are given back in the background all the same. On an error that matches [ErrInvalidOption] nothing was given back.
func (l *Lock) Release(ctx context.Context, n int64) error {
	l.line.mu.Lock()
	l.mu.Lock()
	err := l.judgeLocked()
	if err == nil && l.released {
		err = ErrUnlocked
	}
	l.mu.Unlock()
	if err == nil && l.line.shape.Kind != queue.KindSemaphore {
		err = invalidOption("Release", n, "must be of a semaphore; Unlock gives back a "+string(l.line.shape.Kind))
	}
	if err == nil && (n < 1 || n >= l.claim.units) {
		err = invalidOption("Release", n, fmt.Sprintf("must be at least 1 and less than the %d units held", l.claim.units))
	}
	var s *settling
	if err == nil {
		s = l.line.shrink(l.claim, n)
	}
	l.line.mu.Unlock()
	if err != nil || s == nil {
		return err
	}
	select {
	case <-s.told:
		if s.why != nil {
			return s.why // nothing else of s may be read, it goes on
		}
		// s.lost is not asked: of a number that somebody else has settled the next call hears.
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
