package history

import (
	"slices"

	"github.com/fairlock/fairlock/internal/clock"
)

// tally adds up units by the end of their windows (a binary indexed tree: Fenwick, 1994).
type tally struct {
	ends []clock.Instant // sorted
	sums []int64         // sums[i] covers the lowest set bit of i+1
	all  int64
}

func newTally(calls []*call) *tally {
	t := &tally{}
	for _, c := range calls {
		for _, p := range c.parts {
			t.ends = append(t.ends, p.end)
		}
	}
	slices.Sort(t.ends)
	t.sums = make([]int64, len(t.ends))
	return t
}

// add counts units until end, which is one of those that the tally was made for.
func (t *tally) add(end clock.Instant, units int64) {
	t.all += units
	i, _ := slices.BinarySearch(t.ends, end)
	for i++; i <= len(t.sums); i += i & -i {
		t.sums[i-1] += units
	}
}

// above is how many units end after an instant.
func (t *tally) above(at clock.Instant) int64 {
	i, _ := slices.BinarySearch(t.ends, at+1) // how many ends are at or before at
	upTo := int64(0)
	for ; i > 0; i -= i & -i {
		upTo += t.sums[i-1]
	}
	return t.all - upTo
}
