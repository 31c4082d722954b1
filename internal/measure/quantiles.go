package measure

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Millis is a time in milliseconds.
type Millis float64

// InMillis is d, to the microsecond.
func InMillis[T ~int64](d T) Millis { return Millis(math.Round(float64(d)/1e3) / 1e3) }

// String is the time as people read it.
func (m Millis) String() string {
	switch {
	case m >= 1000:
		return fmt.Sprintf("%.2f s", float64(m)/1000)
	case m >= 100:
		return fmt.Sprintf("%.0f ms", float64(m))
	}
	return fmt.Sprintf("%.2f ms", float64(m))
}

// Quantiles of a sample.
type Quantiles struct {
	N   int    `json:"n"`
	P50 Millis `json:"p50Ms"`
	P99 Millis `json:"p99Ms"`
	Max Millis `json:"maxMs"`
}

// Of takes the nearest rank: a value that was measured, not one between two.
func Of(sample []time.Duration) Quantiles {
	if len(sample) == 0 {
		return Quantiles{}
	}
	s := slices.Sorted(slices.Values(sample))
	rank := func(q float64) Millis {
		return InMillis(s[max(0, int(math.Ceil(q*float64(len(s))))-1)])
	}
	return Quantiles{N: len(s), P50: rank(0.5), P99: rank(0.99), Max: rank(1)}
}

// Ratio is a by b, 0 if b is, to the hundredth.
func Ratio(a, b Millis) float64 {
	if b == 0 {
		return 0
	}
	return Round(float64(a) / float64(b))
}

// Round is x to the hundredth.
func Round(x float64) float64 { return math.Round(x*100) / 100 }
