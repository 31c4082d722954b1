package run

import (
	"context"
	"time"

	"github.com/fairlock/fairlock/bench/stats"
)

// Floors measures a server's floor n times, with a pause before each. A server without a floor gives none.
func Floors(ctx context.Context, s Server, n int, pause time.Duration) ([]int64, error) {
	f, ok := s.(Floorer)
	if !ok {
		return nil, nil
	}
	op, end, err := f.Floor(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	const warm = 10
	var took []int64
	for i := range warm + n {
		if err := Pause(ctx, pause); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := op(ctx); err != nil {
			return nil, err
		}
		if i >= warm {
			took = append(took, time.Since(began).Nanoseconds())
		}
	}
	return took, nil
}

// Pause waits for d, or until ctx ends, which is an error.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// FloorOf is the Spread of several measurements of one floor.
func FloorOf(parts ...[]int64) stats.Spread {
	var all []int64
	for _, p := range parts {
		all = append(all, p...)
	}
	return stats.Of(all)
}
