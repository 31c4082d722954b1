package queue

import (
	"errors"
	"fmt"
)

// Kind says what a lock document is used as. It is stored, so that two programs that mean different things by one
// name find out.
type Kind string

// KindMutex is the lock of one holder: permits 1, every number of weight 1.
const KindMutex Kind = "mutex"

// KindSemaphore is a counting semaphore: permits units, each number of weight 1.
const KindSemaphore Kind = "semaphore"

// KindRW is a fair read/write lock: a reader has weight 1, a writer that of all permits.
const KindRW Kind = "rw"

// Readers is how many can read at a time under a lock of KindRW, and so what a writer takes. A writer uses up that many numbers, so it
// must stay near numbersPerMilli: a million numbers a second are the most for which tokens go on increasing when a document
// is dropped (see baseExpr), and are a thousand writers a second.
const Readers = 1024

// RW is the shape of a fair read/write lock.
var RW = Shape{Kind: KindRW, Permits: Readers}

// MostPermits bounds the permits of a semaphore, for the same reason.
const MostPermits = 10_000

// Shape is what all users of one lock must agree on.
type Shape struct {
	Kind    Kind
	Permits int64 // capacity in units, at least 1
}

// Mutex is the shape of a lock of one holder.
var Mutex = Shape{Kind: KindMutex, Permits: 1}

func (s Shape) String() string { return fmt.Sprintf("%s with %d permits", s.Kind, s.Permits) }

// ErrMismatch: a lock exists with another shape. Errors that match it are of type [*MismatchError].
var ErrMismatch = errors.New("fairlock: lock exists with another kind or other permits")

// MismatchError names both shapes. No number was taken.
type MismatchError struct {
	Name       string
	Want, Have Shape
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("fairlock: lock %q is a %v, not a %v", e.Name, e.Have, e.Want)
}

// ErrTooBig: more units are asked for than the semaphore has permits, so that the call would wait for ever. Errors that match it
// are of type [*TooBigError].
var ErrTooBig = errors.New("fairlock: more units than permits")

// TooBigError names both.
type TooBigError struct {
	Name           string
	Units, Permits int64
}

func (e *TooBigError) Error() string {
	return fmt.Sprintf("fairlock: more units than permits: lock %q has %d permits, %d are asked for", e.Name, e.Permits, e.Units)
}

// Is makes errors.Is(err, ErrTooBig) true.
func (e *TooBigError) Is(target error) bool { return target == ErrTooBig }

// Is makes errors.Is(err, ErrMismatch) true.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }
