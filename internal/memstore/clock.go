package memstore

import (
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/clock"
)

// Clock is a process's clock: package time's (in a bubble of testing/synctest: the bubble's), plus the time that it was made to
// sleep.
type Clock struct {
	began   time.Time
	slept   atomic.Int64
	stopped atomic.Int64 // what it shows while it stands; 0: it runs
}

var _ clock.Clock = (*Clock)(nil)

// NewClock returns a clock that begins shortly after zero.
func NewClock() *Clock { return &Clock{began: time.Now().Add(-time.Second)} }

// Now implements [clock.Clock].
func (c *Clock) Now() clock.Instant {
	if at := c.stopped.Load(); at != 0 {
		return clock.Instant(at)
	}
	return c.running()
}

func (c *Clock) running() clock.Instant {
	return clock.Instant(time.Since(c.began)) + clock.Instant(c.slept.Load())
}

// Sleep makes d pass on the clock at once. Timers do not notice, as after the suspension of a machine.
func (c *Clock) Sleep(d time.Duration) { c.slept.Add(int64(d)) }

// Stop makes the clock stand until Go, after which it shows the true time again: what a process sees that is stopped between two
// instructions, or whose machine is suspended. Its timers go on; they are early by this clock.
func (c *Clock) Stop() { c.stopped.CompareAndSwap(0, int64(c.running())) }

// Go ends Stop.
func (c *Clock) Go() { c.stopped.Store(0) }

// Wall is package time's time plus what was slept, as the clock of a [Server].
func (c *Clock) Wall() time.Time { return time.Now().Add(time.Duration(c.slept.Load())) }
