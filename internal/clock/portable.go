package clock

import (
	"sync"
	"time"
)

// Portable is the clock for systems without one that counts sleep in reach of the standard library. Between two readings it
// advances by what the monotonic clock or the wall clock advanced, whichever is more: sleep shows on the wall clock,
// and a wall clock that was set back shows as no less than the monotonic time. One that was set forward looks like sleep
// and costs a lease, which is the safe side.
type Portable struct {
	mu   sync.Mutex // guards all below
	last time.Time
	now  Instant
	read func() time.Time
}

// NewPortable returns a clock that starts at zero. read is time.Now, or a fake whose times carry no monotonic part.
func NewPortable(read func() time.Time) *Portable { return &Portable{last: read(), read: read} }

// Now implements [Clock].
func (p *Portable) Now() Instant {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.read()
	mono, wall := t.Sub(p.last), t.Round(0).Sub(p.last.Round(0))
	p.now = p.now.Add(max(mono, wall, 0))
	p.last = t
	return p.now
}
