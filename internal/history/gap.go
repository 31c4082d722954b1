package history

import (
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/clock"
)

// NextGrant is when a lock was first granted at or after an instant.
func NextGrant(events []Event, lock string, after clock.Instant) (at clock.Instant, found bool) {
	for _, g := range grants(events, lock) {
		if g >= after {
			return g, true
		}
	}
	return 0, false
}

// Gap is the longest time without a grant of any of the locks (all when none is named) within an interval, of which both ends count as
// grants.
func Gap(events []Event, from, to clock.Instant, locks ...string) time.Duration {
	var most time.Duration
	last := from
	for _, g := range grants(events, locks...) {
		if g >= from && g <= to {
			most = max(most, g.Sub(last))
			last = g
		}
	}
	return max(most, to.Sub(last))
}

// Rate is grants a second within an interval.
func Rate(events []Event, from, to clock.Instant) float64 {
	n := 0
	for _, g := range grants(events) {
		if g >= from && g < to {
			n++
		}
	}
	return float64(n) / to.Sub(from).Seconds()
}

// grants are the times of grants, in order. Grants carry the name of the lock only if the recorder wrote it; the call has it.
func grants(events []Event, locks ...string) []clock.Instant {
	name := map[key]string{}
	var all []clock.Instant
	for _, e := range events {
		k := key{e.Proc, e.Call}
		switch {
		case e.Kind == Call:
			name[k] = e.Lock
		case e.Kind == Granted && (len(locks) == 0 || slices.Contains(locks, name[k])):
			all = append(all, e.At)
		}
	}
	slices.Sort(all)
	return all
}
