package memstore

import (
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/clock"
)

// Clock is a process's clock: package time's (in a bubble of testing/synctest: the bubble's), plus the time that it was made to
// sleep.
type Clock struct {
	began time.Time
	slept atomic.Int64
}

var _ clock.Clock = (*Clock)(nil)

// NewClock returns a clock that begins shortly after zero.
func NewClock() *Clock { return &Clock{began: time.Now().Add(-time.Second)} }

// Now implements [clock.Clock].
func (c *Clock) Now() clock.Instant {
	return clock.Instant(time.Since(c.began)) + clock.Instant(c.slept.Load())
}

// Sleep makes d pass on the clock at once. Timers do not notice, as after the suspension of a machine.
func (c *Clock) Sleep(d time.Duration) { c.slept.Add(int64(d)) }

// Wall is package time's time plus what was slept, as the clock of a [Server].
func (c *Clock) Wall() time.Time { return time.Now().Add(time.Duration(c.slept.Load())) }
