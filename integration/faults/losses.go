package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/history"
)

// mostLosses is how many losses are spelled out.
const mostLosses = 3

// NoLosses is the promise of rows in which no holder has a reason to lose its lock.
func NoLosses(r *Run) (broken []string) {
	for _, e := range r.Events() {
		if e.Kind == history.Lost {
			broken = append(broken, "no lock is lost: "+loss(e))
		}
	}
	return broken[:min(len(broken), mostLosses)]
}

// NoNeedlessLosses is the promise of rows in which the servers confirm nothing for a while that is not ours to bound: an election, and how
// long the others wait for a primary that has frozen. Who was lucky in its last renewal keeps its lock, and who was not loses it, but by its
// own clock only, and not if it could write to the database in time.
func NoNeedlessLosses(r *Run) []string {
	broken := Needless(r.Events(), r.ttl())
	return broken[:min(len(broken), mostLosses)]
}

// Needless is the losses that the history shows to be needless: any that was not told by the holder's own clock, and those of processes
// of which another write was confirmed between the moment when a renewal was due and the end of the lease.
//
// A lease that ended at E was last prolonged by what was sent at E - trust, and another renewal was due an interval later. (Of a ticket that was
// not acknowledged in time that was the arrival, and the ticket was due sooner.) E is not in
// the history: it is the end of what the holder was last promised or later, and when the loss was told or earlier. A write counts that
// is between both bounds whichever it was, with room for one more renewal before it and one after it.
func Needless(events []history.Event, ttl time.Duration) (broken []string) {
	// As fairlock.Config has them by default, and reaper.Lease.
	trust, interval := ttl-ttl/10, ttl/3
	another := min(5*time.Second, interval) / 2
	type call struct {
		proc int
		id   int64
	}
	promised := map[call]Instant{}
	arrivals := map[int][]history.Event{} // by process
	for _, e := range events {
		switch e.Kind {
		case history.Granted, history.Trusted:
			promised[call{e.Proc, e.Call}] = max(promised[call{e.Proc, e.Call}], e.At, e.Until)
		case history.Arrived:
			arrivals[e.Proc] = append(arrivals[e.Proc], e)
		}
	}
	for _, e := range events {
		if e.Kind != history.Lost {
			continue
		}
		if !strings.Contains(e.Err, fairlock.LostLease.String()) && !strings.Contains(e.Err, fairlock.LostTicket.String()) {
			broken = append(broken, "a lock is lost by the holder's own clock only: "+loss(e))
			continue
		}
		from, to := e.At.Add(interval+another-trust), promised[call{e.Proc, e.Call}].Add(-another)
		if i := slices.IndexFunc(arrivals[e.Proc], func(a history.Event) bool { return a.Sent >= from && a.At <= to }); i >= 0 {
			a := arrivals[e.Proc][i]
			broken = append(broken, fmt.Sprintf("a lease is renewed when the database confirms writes, as that for %q from %d to %d: %s", a.Lock, a.Sent, a.At, loss(e)))
		}
	}
	return broken
}

func loss(e history.Event) string {
	return fmt.Sprintf("process %d call %d lost %q at %d: %s", e.Proc, e.Call, e.Lock, e.At, e.Err)
}
