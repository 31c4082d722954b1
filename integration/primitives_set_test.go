package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// envSetsFor is how long TestSetsDoNotDeadlock takes sets. Defaults to 5 s. For a minute:
//
//	FAIRLOCK_SETS_FOR=60s go test ./integration -count=1 -v -run TestSetsDoNotDeadlock
const envSetsFor = "FAIRLOCK_SETS_FOR"

// TestSetsDoNotDeadlock: 50 callers of several managers take random subsets of 20 names, in random orders, for a while. All get done, and no
// name has two holders at a time.
func TestSetsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	const managers, callers, names, most = 4, 50, 20, 5
	length := 5 * time.Second
	if s := os.Getenv(envSetsFor); s != "" {
		var err error
		length, err = time.ParseDuration(s)
		require.NoError(t, err)
	}
	b := newBed(t)
	ctx, cancel := context.WithTimeout(context.Background(), length+limit) // a deadlock ends by it, and is an error
	defer cancel()
	procs, rec := b.recordedManagers(managers)
	until := time.Now().Add(length)
	var sets atomic.Int64
	var holder [names]atomic.Int64
	var all sync.WaitGroup
	for c := range callers {
		rng := rand.New(rand.NewPCG(uint64(c), 7))
		p := procs[c%managers]
		all.Go(func() {
			for time.Now().Before(until) {
				numbers := rng.Perm(names)[:1+rng.IntN(most)]
				var wanted []string
				for _, n := range numbers {
					wanted = append(wanted, fmt.Sprintf("name %d", n))
				}
				k, err := p.take(1, 1, wanted, func() (grip, []int64, error) {
					s, err := p.LockAll(ctx, wanted)
					if err != nil {
						return nil, nil, err
					}
					var tokens []int64
					for _, n := range wanted {
						tokens = append(tokens, s.Lock(n).Token())
					}
					return s, tokens, nil
				})
				if err != nil {
					t.Errorf("%v: %v", wanted, err)
					return
				}
				for _, n := range numbers {
					if other := holder[n].Swap(int64(c + 1)); other != 0 {
						t.Errorf("name %d is held by caller %d and by %d", n, other-1, c)
					}
				}
				time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond) // what they are held for
				for _, n := range numbers {
					holder[n].Store(0)
				}
				if err := k.leave(ctx); err != nil {
					t.Error(err)
				}
				sets.Add(1)
			}
		})
	}
	all.Wait()
	grants := requireSound(t, rec)
	t.Logf("%d sets with %d locks in %v", sets.Load(), grants, length)
	require.Greater(t, sets.Load(), int64(callers))
}
