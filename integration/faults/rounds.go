package faults

import (
	"context"
	"time"
)

// Rounds does harm again and again until the run's length has passed, with a pause from lo to hi by the run's seed before each, and at
// least once. fn gets the number of the round, from 0.
func (r *Run) Rounds(ctx context.Context, lo, hi time.Duration, fn func(round int) error) error {
	end := r.Now().Add(r.Length)
	for i := 0; i == 0 || r.Now() < end && i < extraLocks; i++ {
		if err := r.Sleep(ctx, r.Between(lo, hi)); err != nil {
			return err
		}
		if err := fn(i); err != nil {
			return err
		}
	}
	return nil
}
