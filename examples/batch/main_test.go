package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/examples/internal/memory"
)

// book is a ledger in memory.
type book struct {
	mu   sync.Mutex
	done map[string]int64
}

func (b *book) Done(_ context.Context, chunk string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done[chunk] != 0, nil
}

func (b *book) MarkDone(_ context.Context, chunk string, worker int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if worker < b.done[chunk] {
		return errors.New("stale")
	}
	b.done[chunk] = worker
	return nil
}

// TestEachChunkOnce: four workers do forty chunks, each once and beside each other; all return when all is done.
func TestEachChunkOnce(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		b := &book{done: map[string]int64{}}
		var chunks []string
		for i := range 40 {
			chunks = append(chunks, fmt.Sprint(i))
		}
		var mu sync.Mutex
		times := map[string]int{}
		began := time.Now()
		var wg sync.WaitGroup
		for range 4 {
			m := process()
			wg.Go(func() {
				require.NoError(t, workOff(t.Context(), m, b, chunks, func(_ context.Context, chunk string) error {
					mu.Lock()
					times[chunk]++
					mu.Unlock()
					time.Sleep(time.Second)
					return nil
				}))
				require.Len(t, b.done, 40)
			})
		}
		wg.Wait()
		require.Len(t, times, 40)
		for chunk, n := range times {
			require.Equal(t, 1, n, chunk)
		}
		require.Less(t, time.Since(began), 15*time.Second, "four at a time")
	})
}

// TestWorkerFails: its chunk is another one's.
func TestWorkerFails(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		b := &book{done: map[string]int64{}}
		broken := errors.New("out of memory")
		err := workOff(t.Context(), process(), b, []string{"a", "b"}, func(context.Context, string) error { return broken })
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, "chunk a")
		require.Empty(t, b.done)
		require.NoError(t, workOff(t.Context(), process(), b, []string{"a", "b"}, func(context.Context, string) error { return nil }))
		require.Len(t, b.done, 2)
	})
}
