package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/examples/internal/memory"
)

// TestStandby: one leads at a time, those who stand by follow in their order, and terms grow.
func TestStandby(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		var mu sync.Mutex
		leads, term := "", int64(0)
		job := func(who string) func(context.Context, int64) error {
			return func(ctx context.Context, n int64) error {
				mu.Lock()
				if leads != "" || n <= term {
					t.Errorf("%s leads beside %q, term %d after %d", who, leads, n, term)
				}
				leads, term = who, n
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				leads = ""
				return nil
			}
		}
		leading := func() string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return leads
		}
		var ends []context.CancelFunc
		var wg sync.WaitGroup
		for i := range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			ends = append(ends, cancel)
			m, who := process(), fmt.Sprint("machine ", i)
			wg.Go(func() { require.NoError(t, stand(ctx, m, who, job(who))) })
			time.Sleep(time.Minute)
		}
		require.Equal(t, "machine 0", leading())
		for i, end := range ends {
			require.Equal(t, fmt.Sprint("machine ", i), leading())
			end()
			time.Sleep(2 * time.Second)
		}
		require.Empty(t, leading())
		wg.Wait()
	})
}

// TestJobFails: the next in line goes on.
func TestJobFails(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		broken := errors.New("disk full")
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, stand(ctx, process(), "one", func(context.Context, int64) error { return broken }), broken)
		ran := false
		require.NoError(t, stand(ctx, process(), "two", func(ctx context.Context, _ int64) error {
			ran = true
			cancel()
			return nil
		}))
		require.True(t, ran)
	})
}
