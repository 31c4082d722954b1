package report

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/fairlock/fairlock/bench/fair"
	"github.com/fairlock/fairlock/bench/run"
	"github.com/fairlock/fairlock/bench/stats"
)

// Fairlock is everything that was measured of fairlock. What was not is nil or empty.
type Fairlock struct {
	Machine Machine         `json:"machine"`
	Pair    *fair.Against   `json:"pair,omitempty"`
	HandOff *fair.Against   `json:"handoff,omitempty"`
	Rows    []run.Row       `json:"processes,omitempty"`
	Combine *fair.Combining `json:"combine,omitempty"`
	Idle    []run.Idle      `json:"idle,omitempty"`
	Crowd   *fair.Crowded   `json:"crowd,omitempty"`
	Recipes []run.Row       `json:"recipes,omitempty"`

	Semaphore *Semaphore `json:"semaphore,omitempty"`
}

// Semaphore is one semaphore beside a mutex under the same load. Of Shared only speed and cost mean anything: its analysis is that of a lock
// of one holder.
type Semaphore struct {
	Permits int64        `json:"permits"`
	HandOff fair.Against `json:"handoff"`
	Mutex   run.Row      `json:"mutex"`
	Shared  run.Row      `json:"shared"`
}

// Gain is the acquisitions of the semaphore over those of the mutex.
func (s Semaphore) Gain() float64 { return stats.Ratio(s.Shared.PerSecond, s.Mutex.PerSecond) }

// Figures are the headline figures, in the order in which latest.json has them.
type Figures struct {
	Pair       float64 `json:"pair_ratio"`
	HandOffP50 float64 `json:"handoff_p50_ratio"`
	HandOffP99 float64 `json:"handoff_p99_ratio"`
	Flat       float64 `json:"flat_256_over_8"`
	Writes     float64 `json:"writes_per_acquisition"`
	Wakeups    float64 `json:"wakeups_per_acquisition_256"`
	Combine    float64 `json:"combine_64_per_floor"`
	Blocked    float64 `json:"blocked_128_primary_cpu_pct"`
	CrowdCPU   float64 `json:"blocked_10k_cpu_pct"`
	CrowdBytes float64 `json:"blocked_10k_bytes_per_waiter"`
	Inversions int     `json:"inversions"`
}

// Figures are the headline figures; ok is false if one of them was not measured.
func (r Fairlock) Figures() (f Figures, ok bool) {
	eight, most := r.row(8), r.row(256)
	idle := r.idle(128)
	if r.Pair == nil || r.HandOff == nil || eight == nil || most == nil || r.Combine == nil || idle == nil || r.Crowd == nil {
		return f, false
	}
	f = Figures{
		Pair: round(r.Pair.P50()), HandOffP50: round(r.HandOff.P50()), HandOffP99: round(r.HandOff.P99()),
		Flat: round(stats.Ratio(most.PerSecond, eight.PerSecond)), Wakeups: round(most.Wakeups()), Combine: round(r.Combine.PerFloor()),
		Blocked: round(idle.PrimaryPct()), CrowdCPU: round(r.Crowd.CPU), CrowdBytes: float64(r.Crowd.Bytes),
	}
	for _, row := range r.Rows {
		f.Writes = max(f.Writes, round(row.Writes()))
		f.Inversions += row.Overtaken
	}
	return f, true
}

func round(x float64) float64 { return math.Round(x*1000) / 1000 }

// row is that of n processes and a hold of 0, nil if there is none.
func (r Fairlock) row(n int) *run.Row { return find(r.Rows, n) }

func find(rows []run.Row, n int) *run.Row {
	for i, row := range rows {
		if row.N == n && row.HoldMS == 0 {
			return &rows[i]
		}
	}
	return nil
}

func (r Fairlock) idle(n int) *run.Idle {
	for i, idle := range r.Idle {
		if idle.N == n && idle.Kind == "fairlock" {
			return &r.Idle[i]
		}
	}
	return nil
}

// Target is a figure beside what it should be.
type Target struct {
	What  string
	Value float64
	Limit float64
	Least bool // the limit is the least that is allowed, not the most
}

// Met reports whether the target is met. A figure that could not be measured, NaN, is not.
func (t Target) Met() bool {
	if t.Least {
		return t.Value >= t.Limit
	}
	return t.Value <= t.Limit
}

// Targets are those of which everything was measured.
func (r Fairlock) Targets() (all []Target) {
	most := func(what string, value, limit float64) { all = append(all, Target{what, value, limit, false}) }
	least := func(what string, value, limit float64) { all = append(all, Target{what, value, limit, true}) }
	if r.Pair != nil {
		most("uncontended Lock + Unlock, p50 / floor p50", r.Pair.P50(), 2.15)
	}
	if r.HandOff != nil {
		most("hand-off between two processes, p50 / floor p50", r.HandOff.P50(), 1.15)
		most("hand-off between two processes, p99 / floor p99", r.HandOff.P99(), 1.5)
	}
	if eight, many := r.row(8), r.row(256); eight != nil && many != nil {
		least("acquisitions/s at 256 processes / at 8", stats.Ratio(many.PerSecond, eight.PerSecond), 0.9)
		most("change events + reads per acquisition, 256 processes", many.Wakeups(), 15)
	}
	var inversions float64
	for _, row := range r.Rows {
		inversions += float64(row.Overtaken)
		if row.HoldMS != 0 {
			continue
		}
		at := func(what string) string { return fmt.Sprintf("%s, %d processes", what, row.N) }
		most(at("writes per acquisition, tickets aside"), row.Writes(), 2.05)
		least(at("acquisitions/s x floor p50"), row.PerFloor(), 0.5)
		most(at("hand-off to another, p50 / floor p50"), row.HandOffP50(), 2)
		most(at("hand-off to another, p99 / floor p99"), row.HandOffP99(), 4)
		most(at("commands per acquisition"), row.Commands, 7)
		if row.N >= 32 {
			most(at("longest wait / median wait"), row.LongestWait(), 1.5)
			least(at("Jain's index"), row.Jain, 0.99)
		}
	}
	if len(r.Rows) > 0 {
		most("waiters overtaken, all runs", inversions, 0)
	}
	if r.Combine != nil {
		least("64 goroutines, acquisitions/s x floor p50", r.Combine.PerFloor(), 20)
	}
	if idle := r.idle(128); idle != nil {
		most("128 processes blocked: CPU of the primary above connected, % of a core", idle.PrimaryPct(), 3)
	}
	if r.Crowd != nil {
		most("10,000 goroutines blocked: CPU, % of a core", r.Crowd.CPU, 1)
		most("10,000 goroutines blocked: bytes per waiter beyond its goroutine", float64(r.Crowd.Bytes), 512)
	}
	if s := r.Semaphore; s != nil {
		what := fmt.Sprintf("semaphore of %d", s.Permits)
		most(what+": hand-off of a permit between two processes, p50 / floor p50", s.HandOff.P50(), 1.3)
		least(fmt.Sprintf("%s / mutex, acquisitions/s, %d processes, %v ms held", what, s.Shared.N, s.Shared.HoldMS), s.Gain(), 3)
	}
	if best, own := fairest(r.Recipes, polledAt), r.row(polledAt); best != nil && own != nil {
		least("commands to the server per acquisition, fairest recipe ("+best.Kind+") / fairlock, 128 processes",
			stats.Ratio(best.Commands, own.Commands), 20)
	}
	return all
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
