package replset

import (
	"errors"
	"fmt"
	"strings"
)

// Returned by Find and Start.
var (
	// ErrNoMongod: no way to a usable mongod led anywhere. See FindError.
	ErrNoMongod = errors.New("replset: no usable mongod")

	// ErrOptions: an Options field has a value that means nothing.
	ErrOptions = errors.New("replset: bad options")

	// ErrUnsupported: this operating system lacks what I7 rests on.
	ErrUnsupported = errors.New("replset: starting mongod needs Linux or macOS; set FAIRLOCK_URI to use a running deployment")
)

// Returned by the methods of Set and Member.
var (
	// ErrNoPrimary: no member answered as a writable primary.
	ErrNoPrimary = errors.New("replset: no primary")

	// ErrStandalone: the call makes sense on a replica set only.
	ErrStandalone = errors.New("replset: standalone server")

	// ErrStopped: the set was stopped, or its watcher died and took it along.
	ErrStopped = errors.New("replset: set is stopped")

	// ErrNotRunning: the member has no live process.
	ErrNotRunning = errors.New("replset: member is not running")
)

// Try is one way to a mongod and why it led nowhere.
type Try struct {
	Way string
	Err error
}

// FindError lists every way that Find tried, in order. It is ErrNoMongod.
type FindError struct {
	Tries []Try
}

func (e *FindError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v (need %s or newer); tried:", ErrNoMongod, minVersion)
	for i, t := range e.Tries {
		fmt.Fprintf(&b, "\n  %d. %s: %v", i+1, t.Way, t.Err)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrNoMongod) true.
func (e *FindError) Is(target error) bool { return target == ErrNoMongod }

// Unwrap gives the reasons, so that a caller sees its own ctx error in them.
func (e *FindError) Unwrap() []error {
	errs := make([]error, len(e.Tries))
	for i, t := range e.Tries {
		errs[i] = t.Err
	}
	return errs
}

// StartError is a mongod that ended, or did not get ready, when it was started.
type StartError struct {
	Addr string
	Err  error  // exit status, or the ctx error
	Log  string // the last lines it wrote
}

func (e *StartError) Error() string {
	return fmt.Sprintf("replset: mongod %s did not start: %v; end of its log:\n%s", e.Addr, e.Err, e.Log)
}

func (e *StartError) Unwrap() error { return e.Err }
