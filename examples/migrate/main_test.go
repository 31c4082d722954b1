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

// slate is a schema in memory.
type slate struct{ version int }

func (s *slate) Version(context.Context) (int, error) { return s.version, nil }

func (s *slate) SetVersion(_ context.Context, v int) error {
	s.version = v
	return nil
}

// TestEachStepOnce: ten start at one time. Each step runs once and in order, and all of them come up.
func TestEachStepOnce(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		s := &slate{} // nobody else guards it: the lock does
		var ran []int
		var steps []step
		for i := range 5 {
			steps = append(steps, func(context.Context) error {
				time.Sleep(time.Second)
				ran = append(ran, i)
				return nil
			})
		}
		var wg sync.WaitGroup
		for range 10 {
			m := process()
			wg.Go(func() { require.NoError(t, migrate(t.Context(), m, s, steps)) })
		}
		wg.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4}, ran)
		require.Equal(t, 5, s.version)
	})
}

// TestStepFails: it is named, and the next start goes on there.
func TestStepFails(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		s, broken := &slate{}, errors.New("duplicate key")
		fails := true
		steps := []step{
			func(context.Context) error { return nil },
			func(context.Context) error {
				if fails {
					return broken
				}
				return nil
			},
		}
		err := migrate(t.Context(), process(), s, steps)
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, "step 2")
		require.Equal(t, 1, s.version)
		fails = false
		require.NoError(t, migrate(t.Context(), process(), s, steps))
		require.Equal(t, 2, s.version)
	})
}
