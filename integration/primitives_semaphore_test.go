package integration

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/history"
)

// TestSemaphoreNobodyIsOvertaken: 1,600 acquisitions of random numbers of permits, by callers of several managers who come again and again.
// Whoever asks for many is passed by nobody who came later and asks for few. (100,000 of them: internal/simulate, TestNobodyIsOvertaken.)
func TestSemaphoreNobodyIsOvertaken(t *testing.T) {
	t.Parallel()
	const managers, callers, each, permits = 4, 10, 40, 10
	b := newBed(t)
	ctx, cancel := context.WithTimeout(context.Background(), 3*limit) // alone it takes 10 s, with a race detector
	defer cancel()
	procs, rec := b.recordedManagers(managers)
	var all sync.WaitGroup
	for i, p := range procs {
		s, err := p.Semaphore("pool", permits)
		require.NoError(t, err)
		for c := range callers {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(c)))
			all.Go(func() {
				for range each {
					units := 1 + rng.Int64N(3)
					if rng.IntN(3) == 0 {
						units = 1 + rng.Int64N(permits)
					}
					k, l, err := p.takeOne(units, permits, "pool", func() (*fairlock.Lock, error) { return s.Acquire(ctx, units) })
					if err != nil {
						t.Error(err)
						return
					}
					if part := rng.Int64N(units); part > 0 {
						k.tell(history.Event{Kind: history.Reduced, Units: part})
						if err := l.Release(ctx, part); err != nil {
							t.Error(err)
						}
					} else {
						time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Millisecond)))) // the work that it is held for
					}
					if err := k.leave(ctx); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	require.Equal(t, managers*callers*each, requireSound(t, rec))
}
