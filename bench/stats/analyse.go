package stats

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/fairlock/bench/contend"
)

// Grace is how much earlier a waiter must have asked to be overtaken when nobody acknowledged its place: two calls that are on
// the wire at one time have no order.
const Grace = 5 * time.Millisecond

// Window is the stretch of time that counts, in stamps.
type Window struct{ From, To int64 }

func (w Window) has(stamp int64) bool { return stamp >= w.From && stamp < w.To }

// Analysis is what the records of one run say. See the package for the words.
type Analysis struct {
	Grants     int     `json:"grants"`
	PerSecond  float64 `json:"acquisitions_per_s"`
	HandOff    Spread  `json:"handoff"`
	ToAnother  Spread  `json:"handoff_to_another"`
	OtherShare float64 `json:"share_to_another"` // of the hand-offs
	Wait       Spread  `json:"wait"`
	Oldest     float64 `json:"oldest_unserved_ms"` // longest wait that was not over at the window's end
	Inversions int     `json:"inversions"`         // grants that overtook somebody
	Overtaken  int     `json:"overtaken"`          // waiters, over all grants
	Jain       float64 `json:"jain"`
	JainBest   float64 `json:"jain_best"`
	Unserved   int     `json:"contenders_without_grant"`
	Overlaps   int     `json:"overlaps"`
	Disorder   int     `json:"tokens_out_of_order"`
}

// Acquisition is a record with the contender whose it is.
type Acquisition struct {
	contend.Record
	Contender int
	first     bool
}

// arrived is when the place was taken, as far as anybody knows.
func (a Acquisition) arrived() int64 { return cmp.Or(a.Queued, a.Asked) }

// Analyse makes an Analysis of each contender's records, which are in the order in which they were made.
func Analyse(records [][]contend.Record, w Window) Analysis {
	var a Analysis
	all := Granted(records)
	waiting := newQueues(records)
	shares := make([]int, len(records))
	var waits, hands, others []int64
	var held int64 // until when anybody before is known to have held
	for i, g := range all {
		in := w.has(g.Granted)
		if i > 0 {
			last := all[i-1]
			if g.Granted < held {
				a.Overlaps++
			}
			if g.Token != 0 && last.Token != 0 && g.Token <= last.Token {
				a.Disorder++
			}
			if in && waiting.anyAt(last.Unlocking) {
				hands = append(hands, g.Granted-last.Unlocking)
				if g.Contender != last.Contender {
					others = append(others, g.Granted-last.Unlocking)
				}
			}
		}
		held = max(held, g.Unlocking)
		waiting.pop(g.Contender)
		if !in {
			continue
		}
		shares[g.Contender]++
		a.Grants++
		if !g.first {
			waits = append(waits, g.Granted-g.Asked)
		}
		if n := waiting.overtakenBy(g); n > 0 {
			a.Inversions++
			a.Overtaken += n
		}
	}
	a.PerSecond = float64(a.Grants) / time.Duration(w.To-w.From).Seconds()
	a.OtherShare = Ratio(float64(len(others)), float64(len(hands)))
	a.HandOff, a.ToAnother, a.Wait = Of(hands), Of(others), Of(waits)
	a.Oldest = Millis(oldest(records, w))
	a.Jain, a.JainBest = Jain(shares), JainBest(a.Grants, len(shares))
	for _, s := range shares {
		if s == 0 {
			a.Unserved++
		}
	}
	return a
}

// Granted is all acquisitions that were granted, in the order of Granted.
func Granted(records [][]contend.Record) []Acquisition {
	var all []Acquisition
	for i, rs := range records {
		for j, r := range rs {
			if r.Granted != 0 {
				all = append(all, Acquisition{Record: r, Contender: i, first: j == 0})
			}
		}
	}
	slices.SortFunc(all, func(a, b Acquisition) int { return cmp.Compare(a.Granted, b.Granted) })
	return all
}

// ArrivalRanks gives for grants in order the rank of each by arrival: the identity when the lock is first in, first out.
func ArrivalRanks(grants []Acquisition) []int {
	order := make([]int, len(grants))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(grants[i].arrived(), grants[j].arrived()) })
	ranks := make([]int, len(grants))
	for rank, i := range order {
		ranks[i] = rank
	}
	return ranks
}

// FirstRanks is ArrivalRanks of the first grants of a window, most at most.
func FirstRanks(records [][]contend.Record, w Window, most int) Ranks {
	var in []Acquisition
	for _, g := range Granted(records) {
		if w.has(g.Granted) && len(in) < most {
			in = append(in, g)
		}
	}
	return ArrivalRanks(in)
}

// Ranks is a list of ranks that JSON has as one string.
type Ranks []int

// MarshalText puts a space between the ranks.
func (r Ranks) MarshalText() ([]byte, error) {
	var text []byte
	for i, rank := range r {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, int64(rank), 10)
	}
	return text, nil
}

// UnmarshalText reads what MarshalText writes.
func (r *Ranks) UnmarshalText(text []byte) error {
	*r = nil
	for field := range strings.FieldsSeq(string(text)) {
		rank, err := strconv.Atoi(field)
		if err != nil {
			return err
		}
		*r = append(*r, rank)
	}
	return nil
}

// queues is, for a walk over all grants in order, what each contender has not been granted yet.
type queues [][]contend.Record

func newQueues(records [][]contend.Record) queues { return slices.Clone(records) }

// pop takes the grant of a contender off. Each contender has one acquisition at a time, so its records are in the order of its grants.
func (q queues) pop(contender int) { q[contender] = q[contender][1:] }

// anyAt reports whether anybody who has not been granted had asked by then.
func (q queues) anyAt(stamp int64) bool {
	return slices.ContainsFunc(q, func(rs []contend.Record) bool { return len(rs) > 0 && rs[0].Asked <= stamp })
}

func (q queues) overtakenBy(g Acquisition) (n int) {
	for _, rs := range q {
		if len(rs) == 0 {
			continue
		}
		r := rs[0]
		if r.Queued != 0 && r.Queued < g.Asked || r.Queued == 0 && r.Asked+Grace.Nanoseconds() <= g.Asked {
			n++
		}
	}
	return n
}

// oldest is the longest wait under way at the end of the window.
func oldest(records [][]contend.Record, w Window) (most int64) {
	for _, rs := range records {
		for _, r := range rs {
			if r.Asked < w.To && (r.Granted == 0 || r.Granted >= w.To) {
				most = max(most, w.To-r.Asked)
			}
		}
	}
	return most
}
