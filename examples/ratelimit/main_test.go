package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/examples/internal/memory"
)

// TestLimit: three processes, four permits: never more in use, all of them used, and a heavy call gets its turn.
func TestLimit(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		const permits = 4
		var mu sync.Mutex
		var now, most int64
		heavy := time.Duration(0)
		began := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			sem, err := process().Semaphore("service", permits)
			require.NoError(t, err)
			for i := range 10 {
				weight := int64(1)
				if i == 5 {
					weight = permits
				}
				wg.Go(func() {
					require.NoError(t, limiter{sem}.call(t.Context(), weight, func(context.Context) error {
						mu.Lock()
						now += weight
						most = max(most, now)
						if now > permits {
							t.Errorf("%d in use of %d", now, permits)
						}
						if weight == permits {
							heavy = time.Since(began)
						}
						mu.Unlock()
						time.Sleep(time.Second)
						mu.Lock()
						defer mu.Unlock()
						now -= weight
						return nil
					}))
				})
			}
		}
		wg.Wait()
		require.EqualValues(t, permits, most)
		require.Positive(t, heavy)
	})
}

// TestCallFails: its error is the caller's, and its permits are free again.
func TestCallFails(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		sem, err := process().Semaphore("service", 1)
		require.NoError(t, err)
		broken := errors.New("service is down")
		require.ErrorIs(t, limiter{sem}.call(t.Context(), 1, func(context.Context) error { return broken }), broken)
		require.NoError(t, limiter{sem}.call(t.Context(), 1, func(context.Context) error { return nil }))
		require.ErrorIs(t, limiter{sem}.call(t.Context(), 0, nil), fairlock.ErrInvalidOption)
	})
}
