package queue

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestReferenceInvariants runs random histories of the lock document in plain Go (I1, I2): nothing ever goes down, the
// frontier is the one of its definition, a repeated settle changes nothing.
func TestReferenceInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const base = 100
		permits := rapid.Int64Range(1, 5).Draw(rt, "permits")
		l := NewReference(Shape{Kind: "test", Permits: permits}, base)
		settled := map[int64]bool{} // every number that was ever settled
		var issued []Range
		was := *l
		check := func(rt *rapid.T) {
			require.GreaterOrEqual(rt, l.Issued, was.Issued)
			require.GreaterOrEqual(rt, l.Settled, was.Settled)
			require.GreaterOrEqual(rt, l.Frontier, was.Frontier)
			require.GreaterOrEqual(rt, l.Arrivals, was.Arrivals)
			require.GreaterOrEqual(rt, l.Reached, was.Reached)
			require.LessOrEqual(rt, l.Settled, l.Issued)
			require.Equal(rt, frontierByCounting(l.Settled, l.Done, permits), l.Frontier)
			open := int64(0)
			for n := int64(base + 1); n <= l.Issued; n++ {
				require.Equal(rt, settled[n], l.IsSettled(Range{n, n}), n)
				if n <= l.Frontier && !settled[n] {
					open++
				}
			}
			require.LessOrEqual(rt, open, permits, "admitted and not settled")
			require.True(rt, slices.Equal(Merge(slices.Clone(l.Done)), l.Done), "%v is not in its one form", l.Done)
			if len(l.Done) > 0 {
				require.Greater(rt, l.Done[0].Lo, l.Settled+1)
			}
			woke := l.Calls != was.Calls
			require.Equal(rt, l.Frontier > was.Frontier && was.Issued > was.Frontier, woke, "calls counts what wakes somebody")
			was = *l
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": check,
			"enqueue": func(rt *rapid.T) {
				units := rapid.Int64Range(1, permits).Draw(rt, "units")
				r := l.Enqueue(units)
				require.Equal(rt, Range{was.Issued + 1, was.Issued + units}, r)
				require.False(rt, l.Idle)
				issued = append(issued, r)
			},
			"try": func(rt *rapid.T) {
				units := rapid.Int64Range(1, permits).Draw(rt, "units")
				r, ok := l.Try(units)
				require.Equal(rt, was.Issued+units <= was.Frontier, ok)
				if ok {
					require.LessOrEqual(rt, r.Hi, l.Frontier)
					issued = append(issued, r)
				} else {
					require.Equal(rt, was, *l)
				}
			},
			"settle": func(rt *rapid.T) {
				if len(issued) == 0 {
					rt.Skip("nothing issued")
				}
				r := rapid.SampledFrom(issued).Draw(rt, "range")
				fresh := !was.IsSettled(r)
				require.Equal(rt, fresh, l.Settle([]Range{r}, 0))
				for n := r.Lo; n <= r.Hi; n++ {
					settled[n] = true
				}
				after := *l
				require.False(rt, l.Settle([]Range{r}, 0), "again")
				require.Equal(rt, after, *l)
			},
			"settle what was not issued": func(rt *rapid.T) {
				require.False(rt, l.Settle([]Range{{l.Issued, l.Issued + 1}}, 0))
				require.Equal(rt, was, *l)
			},
		})
	})
}

// TestSettleDoesNotDependOnOrder: whoever settles what and when, together or one by one, the document is the same in the end.
func TestSettleDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		permits := rapid.Int64Range(1, 5).Draw(rt, "permits")
		issue := func() (*Reference, []Range) {
			l := NewReference(Shape{Kind: "test", Permits: permits}, 0)
			var all []Range
			for range 12 {
				all = append(all, l.Enqueue(1))
			}
			return l, all
		}
		one, all := issue()
		some := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, 12, rapid.ID[Range]).Draw(rt, "settled")
		for _, r := range some {
			require.True(rt, one.Settle([]Range{r}, 0))
		}
		other, _ := issue()
		for _, r := range rapid.Permutation(some).Draw(rt, "order") {
			require.True(rt, other.Settle([]Range{r}, 0))
		}
		together, _ := issue()
		require.True(rt, together.Settle(slices.Clone(some), 0))
		for _, l := range []*Reference{other, together} {
			require.Equal(rt, one.Settled, l.Settled)
			require.Equal(rt, one.Frontier, l.Frontier)
			require.True(rt, slices.Equal(one.Done, l.Done))
			require.Equal(rt, one.Idle, l.Idle)
		}
	})
}

func TestAdmits(t *testing.T) {
	t.Parallel()
	v := View{Settled: 10, Frontier: 12}
	require.True(t, v.Admits(Range{11, 12}))
	require.False(t, v.Admits(Range{12, 13}), "only in part")
	require.False(t, v.Admits(Range{10, 10}), "settled numbers are void")
}
