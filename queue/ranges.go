package queue

import (
	"cmp"
	"fmt"
	"slices"
)

// Range is the numbers from Lo to Hi, both included.
type Range struct {
	Lo int64 `bson:"lo"`
	Hi int64 `bson:"hi"`
}

// Units is how many numbers the range has.
func (r Range) Units() int64 { return r.Hi - r.Lo + 1 }

// Contains reports whether n is in the range.
func (r Range) Contains(n int64) bool { return r.Lo <= n && n <= r.Hi }

func (r Range) String() string { return fmt.Sprintf("[%d,%d]", r.Lo, r.Hi) }

// union adds r to done, which is sorted, disjoint and without neighbours (no range ends right before
// the next begins), and keeps it so. The pipeline of Settle computes the same (see unionExpr).
func union(done []Range, r Range) []Range {
	out := make([]Range, 0, len(done)+1)
	i := 0
	for ; i < len(done) && done[i].Hi < r.Lo-1; i++ {
		out = append(out, done[i])
	}
	for ; i < len(done) && done[i].Lo <= r.Hi+1; i++ {
		r = Range{min(r.Lo, done[i].Lo), max(r.Hi, done[i].Hi)}
	}
	return append(append(out, r), done[i:]...)
}

// frontier is the greatest x such that at most permits of the numbers in (settled, x] are not in done. Numbers
// beyond the last issued one count as unsettled, so a lock nobody uses has its frontier permits ahead, and a newcomer
// knows from its own number alone that it is admitted.
func frontier(settled int64, done []Range, permits int64) int64 {
	at, left := settled, permits
	for _, d := range done {
		gap := d.Lo - 1 - at
		if gap > left {
			break
		}
		at, left = d.Hi, left-gap
	}
	return at + left
}

// Subtract returns the numbers of r that lie in none of the ranges in have, which must be sorted by Lo.
// Ranges in have may overlap. It is how gaps in a queue are found, as runs and not number by number.
func Subtract(r Range, have []Range) []Range {
	var gaps []Range
	at := r.Lo
	for _, h := range have {
		if h.Hi < at {
			continue
		}
		if h.Lo > r.Hi {
			break
		}
		if h.Lo > at {
			gaps = append(gaps, Range{at, h.Lo - 1})
		}
		at = h.Hi + 1
	}
	if at <= r.Hi {
		gaps = append(gaps, Range{at, r.Hi})
	}
	return gaps
}

// Clip returns the parts of ranges that lie in r.
func Clip(ranges []Range, r Range) []Range {
	var in []Range
	for _, x := range ranges {
		if x = (Range{max(x.Lo, r.Lo), min(x.Hi, r.Hi)}); x.Lo <= x.Hi {
			in = append(in, x)
		}
	}
	return in
}

// Merge sorts ranges and joins those that overlap or follow one another. It may use the memory of ranges.
func Merge(ranges []Range) []Range {
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Compare(a.Lo, b.Lo) })
	out := ranges[:0]
	for _, r := range ranges {
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi+1 {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}
