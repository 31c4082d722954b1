// Package contend is one contender: a process with one client of its own that takes one lock again and again, and writes
// down when. The harness starts it, says go and stop, and reads what it wrote.
//
// # How harness and contender talk
//
// Arguments: -kind NAME -target ADDRESS -lock NAME -hold DURATION -records FILE. On standard output the contender writes lines:
//
//	ready                  connected; has not asked for the lock yet
//	done {"cpu_ns":...}    the last line: its Totals as JSON, after the records are on disk
//
// On standard input it reads lines: "go" begins the loop Lock, hold, Unlock, without a pause; "stop", or the end of the input,
// ends it: a wait is cancelled, a held lock given back. Anything that fails is written to standard error and ends the
// process with status 1. Between them a contender of this package gets "mark" twice, at the edges of the measured window; see [Counter].
// Other contenders get no "mark".
//
// FILE is a sequence of [Record], each six int64, little endian. All stamps are nanoseconds of CLOCK_MONOTONIC, which all processes of
// a machine share (and which System.nanoTime reads in Java). A contender of another language keeps to the same.
package contend

import "context"

// Locker is one contender's client of one lock.
type Locker interface {
	// Lock waits, however long, until the lock is held. An error may come with the Grant as far as it is known.
	Lock(ctx context.Context) (Grant, error)
	// Unlock gives back what Lock took.
	Unlock(ctx context.Context) error
	// Close gives back all that the client has and ends it. It returns what the client has counted; Commands is 0 when it counts
	// nothing.
	Close(ctx context.Context) (Totals, error)
}

// Counter is a Locker that can say at any time what it has counted so far. Its Totals are then of the time between the two marks
// and not from go to stop.
type Counter interface {
	// Count is called from another goroutine than Lock and Unlock. CPU is not its business.
	Count() Totals
}

// Grant is what a client knows of a place in line. Zero values: it knows nothing.
type Grant struct {
	Queued int64 // stamp of the reply that said that the place is taken
	Token  int64 // increases with the order of grants
}

// Record is one acquisition. One that was asked for and not granted when the contender stopped has Granted 0.
type Record struct {
	Asked, Queued, Granted, Unlocking, Unlocked, Token int64
}

// Totals is what a contender has cost from go to stop, or, if Marked, between its two marks.
type Totals struct {
	CPU      int64            `json:"cpu_ns"`          // user and system time of the process
	Commands int64            `json:"commands"`        // requests that the client sent to the server
	Other    map[string]int64 `json:"other,omitempty"` // whatever else the client counts, for example change events
	Marked   bool             `json:"marked,omitempty"`
}

// Kind is one way to lock.
type Kind struct {
	Name   string
	Server string // "mongo", "redis", "etcd" or "postgres": what target is the address of
	// Open connects. It sends all that has to be sent only once.
	Open func(ctx context.Context, target, lock string) (Locker, error)
}
