package stats

import (
	"math"
	"slices"
	"time"
)

// Spread is a distribution of durations, in milliseconds.
type Spread struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// Of makes the Spread of durations in nanoseconds, which it sorts.
func Of(all []int64) Spread {
	slices.Sort(all)
	return Spread{N: len(all), P50: Millis(Quantile(all, 0.5)), P99: Millis(Quantile(all, 0.99)), Max: Millis(Quantile(all, 1))}
}

// OfDurations is Of for durations.
func OfDurations(all []time.Duration) Spread {
	n := make([]int64, len(all))
	for i, d := range all {
		n[i] = d.Nanoseconds()
	}
	return Of(n)
}

// Quantile is the element of a sorted slice below or at which a share q of it lies; 0 of an empty one. There is no interpolation: what
// it returns was measured.
func Quantile(sorted []int64, q float64) int64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// Millis is nanoseconds as milliseconds.
func Millis(ns int64) float64 { return float64(ns) / 1e6 }

// Jain is Jain's index of fairness; 0 when nobody got anything.
func Jain(shares []int) float64 {
	var sum, squares float64
	for _, s := range shares {
		sum += float64(s)
		squares += float64(s) * float64(s)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// JainBest is Jain of total split as evenly over n as whole numbers allow.
func JainBest(total, n int) float64 {
	shares := make([]int, n)
	for i := range shares {
		shares[i] = total / n
		if i < total%n {
			shares[i]++
		}
	}
	return Jain(shares)
}

// Ratio is a/b, and 0 when b is 0: nothing was measured.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
