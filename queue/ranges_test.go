package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestUnion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		done []Range
		add  Range
		want []Range
	}{
		{"first", nil, Range{5, 7}, []Range{{5, 7}}},
		{"before", []Range{{5, 7}}, Range{1, 3}, []Range{{1, 3}, {5, 7}}},
		{"neighbour before", []Range{{5, 7}}, Range{1, 4}, []Range{{1, 7}}},
		{"after", []Range{{5, 7}}, Range{9, 9}, []Range{{5, 7}, {9, 9}}},
		{"neighbour after", []Range{{5, 7}}, Range{8, 9}, []Range{{5, 9}}},
		{"same", []Range{{5, 7}}, Range{5, 7}, []Range{{5, 7}}},
		{"inside", []Range{{5, 7}}, Range{6, 6}, []Range{{5, 7}}},
		{"around", []Range{{5, 7}}, Range{4, 8}, []Range{{4, 8}}},
		{"overlap", []Range{{5, 7}}, Range{7, 9}, []Range{{5, 9}}},
		{"between", []Range{{1, 2}, {8, 9}}, Range{5, 5}, []Range{{1, 2}, {5, 5}, {8, 9}}},
		{"fills the gap", []Range{{1, 2}, {5, 6}}, Range{3, 4}, []Range{{1, 6}}},
		{"over several", []Range{{1, 2}, {5, 6}, {8, 9}, {20, 21}}, Range{6, 15}, []Range{{1, 2}, {5, 15}, {20, 21}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := append([]Range(nil), c.done...)
			require.Equal(t, c.want, union(c.done, c.add))
			require.Equal(t, before, append([]Range(nil), c.done...), "the argument stays as it was")
		})
	}
}

func TestFrontier(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		settled int64
		done    []Range
		permits int64
		want    int64
	}{
		{"nobody", 10, nil, 1, 11},
		{"nobody, many permits", 10, nil, 5, 15},
		{"second gave up", 10, []Range{{12, 12}}, 1, 12},
		{"second gave up, two permits", 10, []Range{{12, 12}}, 2, 13},
		{"gap as wide as permits", 10, []Range{{13, 14}}, 2, 14},
		{"gap wider than permits", 10, []Range{{14, 14}}, 2, 12},
		{"several gaps", 10, []Range{{12, 12}, {14, 15}, {18, 18}}, 3, 16},
		{"used up right before a gap", 10, []Range{{12, 13}, {15, 15}}, 2, 15},
		{"touches settled", 10, []Range{{11, 12}}, 1, 13},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, frontier(c.settled, c.done, c.permits))
			require.Equal(t, c.want, frontierByCounting(c.settled, c.done, c.permits), "the definition")
		})
	}
}

// frontierByCounting is the definition: the greatest x such that at most permits numbers of (settled, x] are not in done.
func frontierByCounting(settled int64, done []Range, permits int64) int64 {
	x := settled
	for open := int64(0); ; x++ {
		if !containsAny(done, x+1) {
			if open++; open > permits {
				return x
			}
		}
	}
}

func containsAny(ranges []Range, n int64) bool {
	for _, r := range ranges {
		if r.Contains(n) {
			return true
		}
	}
	return false
}

func TestSubtract(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		r    Range
		have []Range
		want []Range
	}{
		{"nothing", Range{1, 9}, nil, []Range{{1, 9}}},
		{"all", Range{1, 9}, []Range{{1, 9}}, nil},
		{"more than all", Range{1, 9}, []Range{{0, 20}}, nil},
		{"head", Range{1, 9}, []Range{{-5, 3}}, []Range{{4, 9}}},
		{"tail", Range{1, 9}, []Range{{7, 12}}, []Range{{1, 6}}},
		{"middle", Range{1, 9}, []Range{{4, 5}}, []Range{{1, 3}, {6, 9}}},
		{"before and after", Range{5, 6}, []Range{{1, 4}, {7, 9}}, []Range{{5, 6}}},
		{"overlapping", Range{1, 9}, []Range{{2, 6}, {3, 4}, {5, 7}}, []Range{{1, 1}, {8, 9}}},
		{"one inside another", Range{1, 9}, []Range{{2, 8}, {3, 4}}, []Range{{1, 1}, {9, 9}}},
		{"one number", Range{5, 5}, []Range{{4, 4}}, []Range{{5, 5}}},
		{"empty", Range{5, 4}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, Subtract(c.r, c.have))
		})
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		have, want []Range
	}{
		{"one", []Range{{1, 2}}, []Range{{1, 2}}},
		{"unsorted", []Range{{8, 9}, {1, 2}}, []Range{{1, 2}, {8, 9}}},
		{"neighbours", []Range{{3, 4}, {1, 2}}, []Range{{1, 4}}},
		{"overlap", []Range{{1, 5}, {3, 9}}, []Range{{1, 9}}},
		{"inside", []Range{{1, 9}, {3, 4}, {11, 12}}, []Range{{1, 9}, {11, 12}}},
		{"same twice", []Range{{1, 2}, {1, 2}}, []Range{{1, 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, Merge(c.have))
		})
	}
	require.Empty(t, Merge(nil))
}

// TestRangesAgainstSets compares all four with sets of numbers.
func TestRangesAgainstSets(t *testing.T) {
	t.Parallel()
	ranges := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) Range {
		lo := rapid.Int64Range(0, 40).Draw(rt, "lo")
		return Range{lo, lo + rapid.Int64Range(0, 6).Draw(rt, "more")}
	}), 0, 8)
	set := func(ranges []Range) map[int64]bool {
		m := map[int64]bool{}
		for _, r := range ranges {
			for n := r.Lo; n <= r.Hi; n++ {
				m[n] = true
			}
		}
		return m
	}
	rapid.Check(t, func(rt *rapid.T) {
		all := ranges.Draw(rt, "ranges")
		want := set(all)
		var done []Range
		for _, r := range all {
			done = union(done, r)
		}
		merged := Merge(append([]Range(nil), all...))
		require.Equal(rt, want, set(done))
		require.Equal(rt, len(merged), len(done), "one form: sorted, disjoint, no neighbours")
		for i := range done {
			require.Equal(rt, merged[i], done[i])
		}
		r := Range{rapid.Int64Range(0, 20).Draw(rt, "from"), rapid.Int64Range(20, 50).Draw(rt, "to")}
		rest := set(Subtract(r, merged))
		for n := r.Lo; n <= r.Hi; n++ {
			require.Equal(rt, !want[n], rest[n], n)
		}
		permits := rapid.Int64Range(1, 6).Draw(rt, "permits")
		require.Equal(rt, frontierByCounting(-1, done, permits), frontier(-1, done, permits))
	})
}
