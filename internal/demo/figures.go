package demo

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/measure"
)

// Millis is a time in milliseconds.
type Millis = measure.Millis

// Quantiles of a sample.
type Quantiles = measure.Quantiles

// handoffs is the times from the start of Unlock to the next grant.
type handoffs struct {
	across []time.Duration // to another process, whose call had been made before the one that unlocks was granted
	within []time.Duration // to another goroutine of the same process, likewise
	idle   []time.Duration // from the end of one across to the start of the next
	struck int             // left out: in the time of a disturbance, which is measured by itself
}

// measureHandoffs looks at neighbouring grants. A call that was made while its predecessor held may have reached the server only
// just in time, so its wait would be that of its own enqueue; therefore "before the predecessor was granted".
func measureHandoffs(grants []Hold, all []*Disturbance) (h handoffs) {
	lastAcross := int64(0)
	for i := 1; i < len(grants); i++ {
		prev, cur := &grants[i-1], &grants[i]
		if prev.How != Unlocked || cur.Wait >= prev.Grant {
			continue
		}
		d := time.Duration(cur.Grant - prev.End)
		switch {
		case slices.ContainsFunc(all, func(d *Disturbance) bool {
			return d.From > 0 && cur.Grant > d.From && (d.To == 0 || prev.End < d.To)
		}):
			h.struck++
		case prev.Worker == cur.Worker:
			h.within = append(h.within, d)
		default:
			h.across = append(h.across, d)
			if lastAcross > 0 {
				h.idle = append(h.idle, time.Duration(prev.End-lastAcross))
			}
			lastAcross = cur.Grant
		}
	}
	return h
}

// inTime is the holds in the order of their grants.
func inTime(holds []Hold) []Hold {
	s := slices.Clone(holds)
	slices.SortFunc(s, func(a, b Hold) int { return cmp.Compare(a.Grant, b.Grant) })
	return s
}

// unused counts the numbers that were issued and never granted: those that died with their owners, or were given up.
func unused(arrivals []Arrival, holds []Hold) (n int64) {
	for _, a := range arrivals {
		n += a.Hi - a.Lo
	}
	return n - int64(len(holds))
}
