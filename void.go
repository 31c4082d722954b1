package fairlock

import (
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
)

// voidLocked ends a run whose numbers cannot be trusted any more, for ever: those who hold are told, those who wait queue
// again at the tail, and what is left is settled, which does no harm where somebody else has done it. The caller
// holds mu.
func (l *line) voidLocked(r *run, why LossReason) {
	l.removeRun(r)
	busy := false
	var again []*claim
	for _, c := range r.claims {
		switch c.state {
		case held:
			busy = c.lock.lose(why) || busy
		case queued:
			c.move(pending)
			again = append(again, c)
		}
	}
	if len(again) > 0 {
		l.m.stats.requeued.Add(int64(len(again)))
		l.requeue(again)
	}
	l.settleVoid(l.newSettling(r, r.open(), r.arrivals), busy)
	l.ask()
	l.watchLocked()
}

// settleVoid settles void numbers. When somebody who held one of them has been told and has not said yet that he is done, it gives him
// the time to stop: not all of them need be settled by others yet.
func (l *line) settleVoid(s *settling, busy bool) {
	if busy {
		l.m.after(l.m.cfg.rest(), func() { l.m.settle(s) })
		return
	}
	l.m.settle(s)
}

// ticketFailed voids what hangs on an arrival's ticket. Claims of other arrivals in the run keep their numbers: the run is
// divided by giving the arrival's numbers back.
func (l *line) ticketFailed(a *arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.runs {
		for _, of := range r.arrivals {
			if of == a {
				l.voidArrival(r, a)
				return
			}
		}
	}
}

// voidArrival is voidLocked for one arrival of a run. The caller holds mu.
func (l *line) voidArrival(r *run, a *arrival) {
	if len(r.arrivals) == 1 {
		l.voidLocked(r, LostTicket)
		return
	}
	wasHeld, busy := false, false
	var again, keep []*claim
	for _, c := range r.claims {
		switch {
		case c.from != a:
			keep = append(keep, c)
		case c.state == held:
			wasHeld = true
			busy = c.lock.lose(LostTicket) || busy
			r.inUse -= c.units
			c.run = &run{gone: true}
		case c.state == queued:
			c.move(pending)
			again = append(again, c)
		}
	}
	r.claims, r.next = keep, 0
	back := queue.Range{Lo: max(a.Lo, r.Lo), Hi: a.Hi} // below r.Lo all is given back, and forgotten
	if wasHeld && l.exclusive() {
		// All before the held number is over, and goes back with it: the rest of the run is not the head before that is
		// settled, Margin from now, and is then by that fact.
		back.Lo = r.Lo
		r.granted = false
	}
	s := l.newSettling(r, queue.Subtract(back, r.given), nil)
	l.give(r, s)
	l.settleVoid(s, busy)
	l.m.stats.requeued.Add(int64(len(again)))
	l.requeue(again)
	l.settleIdle(r)
	l.admitLocked()
	l.ask()
}

// leaseMoved takes in a change of the lease.
func (l *line) leaseMoved(lease *reaper.Lease, to reaper.LeaseState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range append([]*run(nil), l.runs...) {
		if r.lease != lease {
			continue
		}
		switch to {
		case reaper.Ended:
			l.voidLocked(r, LostSession)
		case reaper.Lapsed:
			for _, c := range r.claims {
				if c.state == held {
					c.lock.lose(LostLease)
				}
			}
		}
	}
	if to == reaper.Live {
		l.admitLocked()
	}
}

// checkGone finds out whether the lock document is really gone, by a read that no stale server can answer. If it is, every
// number that was issued before is void. The caller holds mu.
func (l *line) checkGone() {
	if l.checking || len(l.runs) == 0 {
		return
	}
	l.checking = true
	old := l.runs
	l.m.spawn(func() {
		ctx, cancel := l.m.opContext()
		defer cancel()
		gone, err := l.m.queue.Gone(ctx, l.name)
		var v queue.View
		var found bool
		if err == nil && !gone {
			// There, but perhaps made anew, or not one of ours.
			v, found, err = l.m.queue.View(ctx, l.name)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.checking = false
		if err != nil {
			l.lastErr = err
			l.m.log().Warn("fairlock: lock document", "lock", l.name, "error", err)
			return
		}
		if found {
			l.learnLocked(v)
		}
		if !gone {
			return
		}
		l.m.log().Warn("fairlock: lock document was deleted", "lock", l.name)
		for _, r := range old {
			if !r.gone {
				l.voidLocked(r, LostSettled)
			}
		}
	})
}
