package lockbench

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/measure"
)

// Result is what a run has found.
type Result struct {
	Server     string         `json:"server"` // version of MongoDB
	Database   string         `json:"database"`
	Processes  int            `json:"processes"`
	Goroutines int            `json:"goroutines"` // of each process
	Hold       measure.Millis `json:"holdMs"`
	Duration   measure.Millis `json:"durationMs"`

	Floor  measure.Quantiles `json:"floor"`
	Pair   Figure            `json:"pair"`
	Across Figure            `json:"handoff"`       // to another process; N is 0 if there is none
	Within Figure            `json:"handoffInside"` // to another goroutine of the same process

	Acquisitions int     `json:"acquisitions"` // within Duration
	PerSecond    float64 `json:"acquisitionsPerSecond"`
}

// Figure is a sample beside the floor of its run.
type Figure struct {
	measure.Quantiles
	P50Floors float64 `json:"p50Floors"` // p50 by the floor's p50
	P99Floors float64 `json:"p99Floors"` // p99 by the floor's p99
}

func figure(sample []time.Duration, floor measure.Quantiles) Figure {
	q := measure.Of(sample)
	return Figure{q, measure.Ratio(q.P50, floor.P50), measure.Ratio(q.P99, floor.P99)}
}

// hold is one hold of the lock, in stamps.
type hold struct {
	Worker int   `json:"-"`
	Wait   int64 `json:"w"` // before the call of Lock
	Grant  int64 `json:"g"` // it has returned
	End    int64 `json:"e"` // before the call of Unlock
}

// handoffs are those between neighbours, to another process and inside one, whose earlier hold began at from or later. counted is how
// many holds did.
func handoffs(holds []hold, from int64) (across, within []time.Duration, counted int) {
	slices.SortFunc(holds, func(a, b hold) int { return cmp.Compare(a.Grant, b.Grant) })
	for i := range holds {
		if holds[i].Grant < from {
			continue
		}
		counted++
		if i+1 == len(holds) || holds[i+1].Wait >= holds[i].Grant {
			continue
		}
		d := time.Duration(holds[i+1].Grant - holds[i].End)
		if holds[i+1].Worker == holds[i].Worker {
			within = append(within, d)
		} else {
			across = append(across, d)
		}
	}
	return across, within, counted
}
