package queue

import (
	"errors"
	"fmt"
)

// ErrTooManyWaiters: a limit on those who wait was reached, and no number was taken. Errors that match it are of type
// [*TooManyWaitersError].
var ErrTooManyWaiters = errors.New("fairlock: too many waiters")

// TooManyWaitersError names the limit and how many wait.
type TooManyWaitersError struct {
	Name    string
	Limit   int64
	Waiting int64
	// Everywhere is true when all who wait for the lock are counted, whatever process they are of; otherwise all calls of one manager.
	Everywhere bool
	// Room is how many units could have been taken all the same.
	Room int64
}

func (e *TooManyWaitersError) Error() string {
	if e.Everywhere {
		return fmt.Sprintf("fairlock: too many waiters: lock %q has %d, the limit is %d", e.Name, e.Waiting, e.Limit)
	}
	return fmt.Sprintf("fairlock: too many waiters: lock %q: this manager has %d calls that wait, the limit is %d", e.Name, e.Waiting, e.Limit)
}

// Is makes errors.Is(err, ErrTooManyWaiters) true.
func (e *TooManyWaitersError) Is(target error) bool { return target == ErrTooManyWaiters }

// Excess is how many units wait, or when it is negative how many more would be admitted at once. The view needs its Done.
func (v *View) Excess() int64 { return excess(v.Issued, v.Frontier, v.Done) }

func excess(issued, frontier int64, done []Range) int64 {
	n := issued - frontier
	for _, d := range done {
		if d.Lo > frontier {
			n -= d.Units()
		}
	}
	return n
}

// Refusal is why an arrival that agrees in shape was given nothing by the document that v shows, with its Done.
func (a Arrival) Refusal(name string, v View) error {
	if excess := v.Excess(); a.Limit > 0 && excess+a.Units > a.Limit {
		return &TooManyWaitersError{
			Name: name, Limit: a.Limit, Waiting: max(excess, 0), Everywhere: true, Room: max(a.Limit-excess, 0),
		}
	}
	return Malformed("lock", name, "arrival not recorded")
}
