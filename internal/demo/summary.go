package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/measure"
)

// Summary is all that a run has found.
type Summary struct {
	Run        string  `json:"run"`
	Mongod     string  `json:"mongod,omitempty"` // version of the one that was started
	DB         string  `json:"db"`
	Prefix     string  `json:"prefix"`
	Workers    int     `json:"workers"`
	Goroutines int     `json:"goroutines"`
	Invoices   int     `json:"invoices"`
	Hold       Millis  `json:"holdMs"`
	TTL        Millis  `json:"ttlMs"`
	Seed       uint64  `json:"seed"`
	OK         bool    `json:"ok"`
	Proofs     []Proof `json:"proofs"`

	Acquisitions int     `json:"acquisitions"`
	Processes    int     `json:"processes"`
	Work         Millis  `json:"workMs"` // from the start of the first worker to the end of the last
	Total        Millis  `json:"totalMs"`
	PerSecond    float64 `json:"acquisitionsPerSecond"`

	Handoff     Quantiles `json:"handoff"`
	Local       Quantiles `json:"handoffInsideProcess"`
	Excluded    int       `json:"handoffsDuringDisturbances"`
	Floor       Quantiles `json:"floor"`
	FloorBefore Quantiles `json:"floorBefore"`
	FloorAfter  Quantiles `json:"floorAfter"`
	FloorIdle   Millis    `json:"floorIdleMs"`
	RatioP50    float64   `json:"ratioP50"`
	RatioP99    float64   `json:"ratioP99"`

	Disturbances []*Disturbance `json:"disturbances"`

	Traffic        Traffic        `json:"traffic"`
	PerAcquisition PerAcquisition `json:"perAcquisition"`
	GrantsBy       GrantsBy       `json:"grantsBy"`

	LocksLost int     `json:"locksLost"`
	Refused   int     `json:"writesRefused"`
	Repaired  []int64 `json:"rowsRepaired"`
	Unused    int64   `json:"numbersNeverGranted"`
}

// PerAcquisition is Traffic for each acquisition.
type PerAcquisition struct {
	LockWrites   float64 `json:"lockWrites"`
	LockReads    float64 `json:"lockReads"`
	StreamReads  float64 `json:"streamReads"`
	LedgerWrites float64 `json:"ledgerWrites"`
	LedgerReads  float64 `json:"ledgerReads"`
}

// GrantsBy is how grants came about that had to wait for another process.
type GrantsBy struct {
	Event   int64 `json:"event"`
	Opening int64 `json:"opening"`
	Recheck int64 `json:"recheck"`
}

// text is the summary for people.
func (s *Summary) text(w io.Writer, paint func(color, text string) string) {
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	figure := func(name, format string, args ...any) { line("  %-30s %s", name, fmt.Sprintf(format, args...)) }
	line("")
	line("proved from the ledger of %d invoices:", s.Invoices)
	for _, p := range s.Proofs {
		mark := paint(green, "ok  ")
		if !p.OK {
			mark = paint(red, "FAIL")
		}
		line("  %s %-30s %s", mark, p.Name, p.Finding)
		for _, e := range p.Evidence {
			line("         %s", e)
		}
	}
	line("")
	line("measured:")
	figure("acquisitions", "%d by %d processes in %v, %.0f a second", s.Acquisitions, s.Processes, s.Work, s.PerSecond)
	figure("hand-off to another process", "p50 %v   p99 %v   (%d; %d more while something was wrong)", s.Handoff.P50, s.Handoff.P99, s.Handoff.N, s.Excluded)
	figure("floor: one findAndModify", "p50 %v   p99 %v   (%d majority writes, alone, %v apart)", s.Floor.P50, s.Floor.P99, s.Floor.N, s.FloorIdle)
	figure("hand-off / floor", "p50 %.2f   p99 %.2f", s.RatioP50, s.RatioP99)
	if s.Local.N > 0 {
		figure("hand-off inside a process", "p50 %v   p99 %v   (%d)", s.Local.P50, s.Local.P99, s.Local.N)
	}
	for _, d := range s.Disturbances {
		switch d.Kind {
		case KillHolder:
			figure(d.Kind, "next grant elsewhere after %v (lease %v)", d.Recovery, s.TTL)
		case KillWaiter:
			figure(d.Kind, "next grant elsewhere after %v; longest time without a grant %v (lease %v)", d.Recovery, d.Gap, s.TTL)
		case StepDown:
			figure(d.Kind+" of the primary", "longest time without a grant %v", d.Gap)
		}
	}
	p := s.PerAcquisition
	figure("per acquisition, the lock", "%.2f writes, %.2f reads, %.2f change stream reads", p.LockWrites, p.LockReads, p.StreamReads)
	figure("per acquisition, the ledger", "%.2f writes, %.2f reads", p.LedgerWrites, p.LedgerReads)
	figure("grants after a wait for others", "%d by change event, %d when opening a stream, %d by re-check", s.GrantsBy.Event, s.GrantsBy.Opening, s.GrantsBy.Recheck)
	figure("locks lost, writes refused", "%d, %d", s.LocksLost, s.Refused)
	figure("rows completed for the dead", "%d", len(s.Repaired))
	figure("numbers that nobody was granted", "%d", s.Unused)
	line("")
	verdict := paint(green, "all proofs hold")
	if bad := s.failed(); len(bad) > 0 {
		verdict = paint(red, "FAILED: "+strings.Join(bad, ", "))
	}
	line("%s; %v in all", verdict, s.Total)
}

// failed is the names of the proofs that failed.
func (s *Summary) failed() (names []string) {
	for _, p := range s.Proofs {
		if !p.OK {
			names = append(names, p.Name)
		}
	}
	return names
}

// fill computes what is derived from the holds and counts.
func (s *Summary) fill(c *crew, arrivals []Arrival, before, after []time.Duration, idle time.Duration) {
	grants := inTime(c.holds)
	c.plan.measure(grants)
	h := measureHandoffs(grants, c.plan.all)
	s.Acquisitions, s.Processes = len(grants), len(c.procs)
	s.Disturbances, s.LocksLost, s.Refused, s.Repaired = c.plan.all, c.lost, len(c.refused), append([]int64{}, c.repaired...)
	s.Handoff, s.Local, s.Excluded = measure.Of(h.across), measure.Of(h.within), h.struck
	s.FloorBefore, s.FloorAfter, s.Floor = measure.Of(before), measure.Of(after), measure.Of(append(before, after...))
	s.FloorIdle = measure.InMillis(idle)
	s.RatioP50, s.RatioP99 = measure.Ratio(s.Handoff.P50, s.Floor.P50), measure.Ratio(s.Handoff.P99, s.Floor.P99)
	s.Unused = unused(arrivals, grants)
	if s.Work > 0 {
		s.PerSecond = float64(s.Acquisitions) / float64(s.Work) * 1000
	}
	var granted int64
	for _, p := range c.procs {
		if p.counts == nil {
			continue
		}
		s.Traffic.add(p.counts.Commands)
		st := &p.counts.Stats
		granted += st.Grants
		s.GrantsBy.Event += st.GrantsByEvent
		s.GrantsBy.Opening += st.GrantsByOpening
		s.GrantsBy.Recheck += st.GrantsByRecheck
	}
	// By the grants that the counts know of: those of a killed worker end a little before it does.
	if n := float64(granted); n > 0 {
		t := &s.Traffic
		s.PerAcquisition = PerAcquisition{
			float64(t.LockWrites) / n, float64(t.LockReads) / n, float64(t.StreamReads) / n,
			float64(t.LedgerWrites) / n, float64(t.LedgerReads) / n,
		}
	}
}
