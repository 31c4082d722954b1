package reaper

import (
	"context"
	"time"
)

// Examine is one look without the counting and the logging of it.
func (r *Reaper) Examine(ctx context.Context, t Target) (time.Duration, error) {
	return r.examine(ctx, t, true)
}

// SweepOnce is one sweep.
func (r *Reaper) SweepOnce(ctx context.Context) { r.sweep(ctx) }

// Tick is the time between two looks of a waiter near the head.
func (r *Reaper) Tick() time.Duration { return r.tick() }

// Done is closed when nothing renews the session any more.
func (l *Lease) Done() <-chan struct{} { return l.done }
