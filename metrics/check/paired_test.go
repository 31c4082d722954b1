package check

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// estimate is a mean and how far on each side its 95 % confidence interval goes.
type estimate struct{ mean, half float64 }

// trimmed is the mean of all but the lowest and the highest tenth: a machine that does something else for a moment makes a round that says
// nothing. The interval is that of Tukey and McLaughlin: the deviation of the values with those of the tails pulled in to the ones that stay, over the share that
// stays, and Student's t. The values must come from rounds that know nothing of each other.
func trimmed(all []float64) estimate {
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	out := n / 10
	pulled := slices.Clone(all)
	for i := range out {
		pulled[i], pulled[n-1-i] = all[out], all[n-1-out]
	}
	stay := float64(n - 2*out)
	around, sum := mean(pulled), 0.0
	for _, v := range pulled {
		sum += (v - around) * (v - around)
	}
	deviation := math.Sqrt(sum/float64(n-1)) * float64(n) / stay
	return estimate{mean(all[out : n-out]), student(stay-1) * deviation / math.Sqrt(float64(n))}
}

func mean(all []float64) float64 {
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	return sum / float64(len(all))
}

// student is the t of 95 % with so many degrees of freedom, to 2 % from 4 on.
func student(degrees float64) float64 { return 1.96 + 2.37/degrees + 2.82/(degrees*degrees) }

// fewer is by how many percent rates are lower than base, which has the one of the same round for each. It is made of logarithms: of ratios
// as they are the mean is too high, since a base that is low by chance counts for more than one that is high.
func fewer(rates, base []float64) estimate {
	logs := make([]float64, len(rates))
	for i, r := range rates {
		logs[i] = math.Log(r / base[i])
	}
	e := trimmed(logs)
	low, high := math.Exp(e.mean-e.half), math.Exp(e.mean+e.half)
	return estimate{100 * (1 - math.Exp(e.mean)), 100 * (high - low) / 2}
}

// longer is by how many nanoseconds each of rates, which are per second, takes longer than that of base in the same round.
func longer(rates, base []float64) estimate {
	more := make([]float64, len(rates))
	for i, r := range rates {
		more[i] = 1e9/r - 1e9/base[i]
	}
	return trimmed(more)
}

func TestTrimmed(t *testing.T) {
	t.Parallel()
	require.Equal(t, estimate{3, 0}, trimmed([]float64{3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}))
	require.Equal(t, estimate{1, 0}, trimmed([]float64{-500, 1, 1, 1, 1, 1, 1, 1, 1, 900}), "one in ten on each side")
	// Without tails it is the plain interval of Student: 5 values, deviation 1.5811, t 2.776.
	five := trimmed([]float64{5, 1, 2, 4, 3})
	require.InDelta(t, 3, five.mean, 1e-9)
	require.InEpsilon(t, 2.776*1.5811/math.Sqrt(5), five.half, .02)
}

// TestIntervals: nineteen intervals of twenty have the truth in them, whatever all kinds of a round have in common, and also where one round in twenty is disturbed.
func TestIntervals(t *testing.T) {
	t.Parallel()
	const tries, rounds, cost = 2000, 120, .01
	r := rand.New(rand.NewPCG(1, 2))
	within, widths := 0, 0.0
	for range tries {
		none, some := make([]float64, rounds), make([]float64, rounds)
		for i := range rounds {
			speed := 700 * math.Exp(.2*r.NormFloat64()) // of the machine in this round
			none[i] = speed * math.Exp(.03*r.NormFloat64())
			some[i] = speed * (1 - cost) * math.Exp(.03*r.NormFloat64())
			if r.IntN(20) == 0 {
				[][]float64{none, some}[r.IntN(2)][i] /= 2
			}
		}
		e := fewer(some, none)
		widths += e.half
		if math.Abs(e.mean-100*cost) <= e.half {
			within++
		}
	}
	require.InDelta(t, .95, float64(within)/tries, .015)
	require.Less(t, widths/tries, 1.1, "percent: rounds with 3 %% of noise show a cost of 1 %%")
}
