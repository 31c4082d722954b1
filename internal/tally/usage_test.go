package tally

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/tally/usage"
)

// ledger follows each call that an observer is told of from its beginning to its end.
type ledger struct {
	mu       sync.Mutex // guards all below
	calls    map[*call]bool
	outcomes map[string]int64
	reasons  map[string]int64
	kinds    map[string]int64
	faults   []string
}

// call is one acquisition. Its context carries it.
type call struct {
	asked fairlock.Acquiring
	told  *fairlock.Acquired
	ended *fairlock.Ended
}

func (l *ledger) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// of is the call of a context, if it is this ledger's: the key is the ledger itself.
func (l *ledger) of(ctx context.Context) *call {
	c, _ := ctx.Value(l).(*call)
	if c == nil {
		l.fault("a context without its call")
		return &call{}
	}
	return c
}

func (l *ledger) observer() *fairlock.Observer {
	return &fairlock.Observer{
		Acquiring: func(ctx context.Context, a fairlock.Acquiring) context.Context {
			l.mu.Lock()
			defer l.mu.Unlock()
			c := &call{asked: a}
			l.calls[c] = true
			return context.WithValue(ctx, l, c)
		},
		Acquired: func(ctx context.Context, a fairlock.Acquired) context.Context {
			l.mu.Lock()
			defer l.mu.Unlock()
			c := l.of(ctx)
			switch {
			case c.told != nil:
				l.fault("acquired twice: %+v", a)
			case c.asked != a.Acquiring:
				l.fault("asked for %+v, acquired %+v", c.asked, a)
			case a.Waited < 0, a.Ahead < 0, (a.Token > 0) != (a.Err == nil):
				l.fault("no such acquisition: %+v", a)
			case !slices.Contains(fairlock.Outcomes(), a.Outcome()), (a.Outcome() == "granted") != (a.Err == nil):
				l.fault("no such outcome: %+v", a)
			}
			c.told = &a
			l.outcomes[a.Outcome()]++
			l.kinds[a.Kind]++
			return ctx
		},
		Ended: func(ctx context.Context, e fairlock.Ended) {
			l.mu.Lock()
			defer l.mu.Unlock()
			c := l.of(ctx)
			switch {
			case c.told == nil || c.told.Err != nil:
				l.fault("ended and not granted: %+v", e)
			case c.ended != nil:
				l.fault("ended twice: %+v, %+v", *c.ended, e)
			case e.Held < 0, e.Handed < 0, e.Token != c.told.Token, e.Acquiring != c.asked:
				l.fault("no such end: %+v of %+v", e, *c.told)
			}
			c.ended = &e
			l.reasons[e.Reason()]++
		},
	}
}

// TestUsage: whatever programs do and whatever happens to them, each call that begins is told to have ended once, each grant has one end, counts are those
// of the callers, and at the end nothing is held, nobody waits and no stream is open.
func TestUsage(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	reasons, outcomes, kinds := map[string]int64{}, map[string]int64{}, map[string]int64{}
	t.Run("seeds", func(t *testing.T) {
		for seed := range uint64(40) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var all Managers
					l := &ledger{calls: map[*call]bool{}, outcomes: map[string]int64{}, reasons: map[string]int64{}, kinds: map[string]int64{}}
					counts := &fairlock.Observer{Made: all.Made, Closed: all.Closed}
					told := usage.Run(t, seed, fairlock.Observers(l.observer(), counts), func() {
						synctest.Wait()
						s := all.Sum()
						require.Zero(t, s.Held)
						require.Zero(t, s.Waiting)
						require.Zero(t, s.Streams)
					})
					synctest.Wait()
					l.mu.Lock()
					defer l.mu.Unlock()
					require.Empty(t, l.faults)
					s := all.Sum()
					require.Equal(t, []int64{0, 0, 0, 0, 0}, []int64{s.Managers, s.Held, s.Waiting, s.Streams, s.Unobserved})
					granted, ofSets := int64(0), int64(0)
					for c := range l.calls {
						require.NotNil(t, c.told, "%+v", c.asked)
						require.Equal(t, c.told.Err == nil, c.ended != nil, "%+v", *c.told)
						if c.told.Err == nil {
							granted++
						}
					}
					// How many calls LockAll makes depends on where it fails: one for each of its names at most.
					ofSets = int64(len(l.calls)) - told.Calls
					require.GreaterOrEqual(t, ofSets, told.Sets)
					require.LessOrEqual(t, ofSets, 3*told.Sets)
					require.GreaterOrEqual(t, granted, told.Granted)
					require.LessOrEqual(t, granted, s.Grants)
					mu.Lock()
					defer mu.Unlock()
					for to, from := range map[*map[string]int64]map[string]int64{&reasons: l.reasons, &outcomes: l.outcomes, &kinds: l.kinds} {
						for k, n := range from {
							(*to)[k] += n
						}
					}
				})
			})
		}
	})
	t.Log(outcomes, reasons, kinds)
	require.Equal(t, slices.Sorted(slices.Values(fairlock.Outcomes())), slices.Sorted(maps.Keys(outcomes)), "all that can happen did")
	require.Equal(t, slices.Sorted(slices.Values(Kinds())), slices.Sorted(maps.Keys(kinds)))
	for _, reason := range []string{"unlocked", "undone", "lease", "max_hold", "closed", "forced"} {
		require.Positive(t, reasons[reason], reason)
	}
}
