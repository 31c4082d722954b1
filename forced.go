package fairlock

import (
	"slices"

	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
)

// Numbers of this process that others have settled while its session lives and the lock document is the same: they were unlocked by force, or
// an arrival of them was buried. The rest of a run goes on.

// voidClaims ends the claims of a run whose numbers are among those that others have settled. Whoever holds one is told. Its units stay in
// use in this process until he has said that he is done, or had Margin to stop, though its numbers are capacity no more: so nobody here is
// admitted beside him before that. Who waits queues again at the tail. The caller holds mu.
func (l *line) voidClaims(r *run, why LossReason, settled []queue.Range) {
	touched := func(x queue.Range) bool { return len(queue.Clip(settled, x)) > 0 }
	var keep, again []*claim
	back := slices.Clone(settled)
	for _, c := range r.claims {
		switch {
		case c.state == held && touched(c.num):
			c.lock.lose(why)
			keep = append(keep, c)
		case c.state == queued && touched(c.num):
			c.move(pending)
			c.from.claims = slices.DeleteFunc(slices.Clone(c.from.claims), func(x *claim) bool { return x == c })
			c.from.pass()
			again = append(again, c)
			back = append(back, c.num) // settled in part
		default:
			keep = append(keep, c)
		}
	}
	var open []queue.Range
	for _, b := range queue.Clip(queue.Merge(back), r.Range) {
		open = append(open, queue.Subtract(b, r.given)...)
	}
	if len(open) == 0 {
		return
	}
	r.claims, r.next = keep, 0
	s := l.newSettling(r, open, nil) // most of it again, which does no harm
	l.give(r, s)
	l.m.settle(s)
	l.m.stats.requeued.Add(int64(len(again)))
	l.requeue(again)
	l.settleIdle(r)
	l.ask()
}

// forcedLocked takes in that a token was unlocked by force: perhaps one of ours. The caller holds mu.
func (l *line) forcedLocked(token int64) {
	for _, r := range l.runs { // voidClaims may replace l.runs, this walk goes on over the old one
		for _, c := range r.claims {
			if c.num.Lo == token && (c.state == held || c.state == queued) {
				l.voidClaims(r, LostForced, []queue.Range{c.num})
				break
			}
		}
	}
}

// forced takes in what renewals of the session have brought. It runs in the lease's goroutine.
func (m *Manager) forced(all []reaper.Forced) {
	for _, f := range all {
		if l := m.lineOf(f.Lock); l != nil {
			l.mu.Lock()
			l.forcedLocked(f.Token)
			l.mu.Unlock()
		}
	}
}

// looksLocked judges whether v may follow an unlocking by force of which it is not known whether it was of one of our numbers. With one permit settled
// tells. With more, numbers are settled out of order, and one that we go on counting as ours would let one too many in; so the whole document
// is read. The caller holds mu.
func (l *line) looksLocked(v queue.View) {
	switch {
	case v.Forces <= l.forces:
	case l.exclusive() || len(l.runs) == 0:
		l.forces = v.Forces
	case l.looking:
		l.wanted, l.lookUpTo = max(l.wanted, v.Forces), l.runs[len(l.runs)-1].Hi
	default:
		l.looking, l.wanted, l.lookUpTo = true, v.Forces, l.runs[len(l.runs)-1].Hi
		l.looks = make(chan struct{})
		l.m.ref(l)
		looks := l.looks
		l.m.spawn(func() {
			defer close(looks)
			l.look()
		})
	}
}

// look reads the lock document until it is as new as what made the line look, and tells the line which numbers are settled.
func (l *line) look() {
	m := l.m
	defer m.unref(l)
	for {
		ctx, cancel := m.opContext()
		v, found, err := m.queue.View(ctx, l.name)
		cancel()
		if err != nil {
			m.log().Warn("fairlock: lock document", "lock", l.name, "error", err)
		}
		if err == nil && l.looked(v, found) || l.needsNoLook() {
			return
		}
		if !m.pause(retryPause) {
			return
		}
	}
}

// needsNoLook ends a look for which there is no number of ours any more, as when the manager is closed.
func (l *line) needsNoLook() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looking = l.looking && len(l.runs) > 0
	return !l.looking
}

// looked reports whether that read was what look is for.
func (l *line) looked(v queue.View, found bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !found {
		l.checkGone()
	}
	settled := append([]queue.Range{{Lo: 0, Hi: v.Settled}}, v.Done...)
	for _, r := range slices.Clone(l.runs) {
		if r.Lo <= l.lookUpTo && v.Settled < min(r.Hi, l.lookUpTo) && v.Forces < l.wanted {
			return false // old, or missing as far as a server knows; a document that was made anew is beyond all numbers of that time
		}
		l.voidClaims(r, LostForced, queue.Clip(settled, r.Range))
	}
	l.looking = false
	l.forces = v.Forces
	if found {
		l.learnLocked(v)
	}
	return true
}

// refuseBig fails those who wait for more units than the semaphore has any more: they would wait for ever, and all others behind them. The
// document is newer than their arrival, by which it had enough. The caller holds mu.
func (l *line) refuseBig(v queue.View) {
	l.refuseLocked(func(c *claim) bool { return c.units > v.Permits && c.num.Hi <= v.Issued }, func(c *claim) error {
		return &queue.TooBigError{Name: l.name, Units: c.units, Permits: v.Permits}
	})
}
