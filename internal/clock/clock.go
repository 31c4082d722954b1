// Package clock is the time by which trust is judged.
//
// A holder stops trusting its lease by its own clock, without needing a reply. That clock must count the time that
// the machine is asleep (Go's monotonic clock stands still while a laptop or a virtual machine is suspended, and the lease
// goes on running on the server), and it must not follow the wall clock when that is set back, for then a holder would
// trust too long. A clock that runs ahead is safe for a holder: it gives up too early.
//
// Timers are Go's. They may fire late, after a suspension by its whole length; whoever asks gets the answer of Now and does not
// depend on them.
package clock

import "time"

// Instant is nanoseconds since an arbitrary point, the same for the life of a process.
type Instant int64

// Add returns the instant d later.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d) }

// Sub returns the time from u to t.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// Clock tells the time. Implementations are safe for concurrent use and never go back.
type Clock interface {
	Now() Instant
}
