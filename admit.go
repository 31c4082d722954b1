package fairlock

import (
	"slices"

	"github.com/fairlock/fairlock/queue"
)

// learnLocked takes in what a majority-committed lock document said. The caller holds mu.
func (l *line) learnLocked(v queue.View) (granted int64) {
	l.reached = max(l.reached, v.Reached)
	if v.Forced > 0 {
		l.forcedLocked(v.Forced)
	}
	l.looksLocked(v)
	for _, r := range l.runs { // voidLocked replaces l.runs, this walk goes on over the old one
		// A number that we have not settled is settled: somebody else did it, or the document was made anew.
		if v.Settled < r.Lo {
			break // so it is for all that come after, which are as many as others stand between ours
		}
		switch {
		case v.Settled < r.lowestOpen():
		case v.Settled >= r.Hi:
			l.voidLocked(r, LostSettled)
		default:
			l.voidClaims(r, LostSettled, []queue.Range{{Lo: r.Lo, Hi: v.Settled}})
		}
	}
	if v.Permits > 0 && l.shape.Kind == queue.KindSemaphore {
		l.managed.Store(v.Managed)
		for _, r := range l.runs {
			l.settleManaged(r)
		}
		l.refuseBig(v)
	}
	if v.Settled >= 0 {
		l.shown = max(l.shown, v.Frontier)
	}
	if l.looking {
		return 0
	}
	frontier := v.Frontier
	if l.exclusive() && v.Settled >= 0 {
		// The frontier also passes over numbers that were settled out of order, and ours may be one of them (its session
		// was ended by hand). With one permit settled says the same without that doubt: the head is the number after it.
		frontier = v.Settled + 1
	}
	l.frontier = max(l.frontier, frontier)
	granted = l.admitLocked()
	if v.Request != nil {
		l.requestedLocked(*v.Request) // also those who were granted by the same news
	}
	return granted
}

// admitLocked hands out what is admitted: in each run the next waiting claim, as long as it fits whole (nobody overtakes
// a bigger one) and we can be sure that no reaper has settled its number. The caller holds mu.
func (l *line) admitLocked() (granted int64) {
	for _, r := range l.runs { // settleSpare may replace l.runs, this walk goes on over the old one
		if r.Lo > l.frontier && !r.granted {
			// Neither this run nor one behind it has anything that is admitted: trimRun moves Lo beyond the frontier only in a run that was granted,
			// and a run that was granted behind this one would have needed a frontier beyond this one.
			break
		}
		granted += l.admitRun(r)
		l.settleSpare(r)
	}
	l.watchLocked()
	return granted
}

// admitRun is admitLocked for one run.
func (l *line) admitRun(r *run) (granted int64) {
	for r.waits() && r.inUse+r.claims[r.next].units <= l.capacity(r) {
		c := r.claims[r.next]
		lock := newLock(l, c)
		if !lock.trusted() {
			// Not ours to take at this moment. A renewal, the ticket's acknowledgement or its failure comes back here.
			break
		}
		c.move(held)
		r.granted = true
		r.inUse += c.units
		r.next++
		c.lock = lock
		if c.num.Hi <= l.asked.UpTo {
			lock.request() // it was admitted when the request was made, and we hear of both only now
		}
		lock.start()
		granted++
		close(c.ready)
	}
	l.m.stats.grants.Add(granted)
	return granted
}

// capacity is how many units of the run may be in use. With one permit, a run of which a claim was granted is the head of the
// queue until it ends: a granted number is admitted and not settled, so with one permit it is the first such number, all
// before it are settled, and nobody else's lies inside the run. Whatever number of it is the lowest one left, nobody can be
// admitted before that one is settled. The caller holds mu.
func (l *line) capacity(r *run) int64 {
	if l.exclusive() && r.granted {
		return 1
	}
	return r.admitted(l.frontier, l.m.clock.Now())
}

// settleSpare gives back what is left of a run's capacity when nobody in it waits for it: with several permits, who was granted
// last can need less than those who left. With one permit there is never anything left. The caller holds mu.
func (l *line) settleSpare(r *run) *settling {
	if l.exclusive() || r.inUse == 0 || r.inUse >= l.capacity(r) {
		return nil
	}
	return l.settleIdle(r)
}

// release ends a claim that is queued or granted, and returns the settling of its numbers if it is written now. The
// caller holds mu.
func (l *line) release(c *claim) *settling {
	r := c.run
	if c.state == held {
		r.inUse -= c.units
	}
	c.move(over)
	l.m.unref(l)
	if r.gone {
		return nil // void: given back already
	}
	c.from.pass()
	return l.freed(r)
}

// shrink gives back n of the units of a claim that is granted and has more, the last ones, so that its token stays. It returns
// the settling of their numbers if it is written now. The caller holds mu.
func (l *line) shrink(c *claim, n int64) *settling {
	r := c.run
	c.units -= n
	c.num.Hi -= n
	r.inUse -= n
	if r.gone {
		return nil // void: given back already
	}
	return l.freed(r)
}

// freed takes in that units of a run are not used any more, and returns the settling of their numbers if it is written now. The caller holds mu.
func (l *line) freed(r *run) *settling {
	s := l.settleIdle(r)
	if !r.gone {
		if s == nil {
			s = l.settleManaged(r)
		}
		l.admitRun(r)
		if s == nil {
			s = l.settleSpare(r)
		}
		l.admitLocked()
	}
	l.watchLocked()
	return s
}

// settleManaged gives back what a run in which somebody waits does not use, of a semaphore whose permits were set by hand: there may be fewer
// now than are held, and then the next of the run must not take it. The caller holds mu.
func (l *line) settleManaged(r *run) *settling {
	if !l.managed.Load() || r.gone || !r.waits() {
		return nil
	}
	return l.trimRun(r)
}

// settleIdle gives back the numbers that nobody uses, once no claim of the run waits: until then they are capacity that the
// next of ours would get anyway, so nobody else is delayed by keeping them. The caller holds mu.
func (l *line) settleIdle(r *run) *settling {
	if r.gone || r.waits() {
		return nil
	}
	idle := r.idle()
	switch {
	case len(idle) == 0 && r.inUse > 0:
		return nil
	case len(idle) == 0:
		l.removeRun(r)
		l.m.settle(l.newSettling(r, nil, r.arrivals))
		return nil
	}
	s := l.newSettling(r, idle, nil)
	s.arrival = r.arrivals[len(r.arrivals)-1].index
	if r.inUse == 0 {
		s.drop = r.arrivals
		l.removeRun(r)
		if l.exclusive() && r.granted { // see capacity: nothing was left before what follows the run
			s.opens = r.Hi + 1
			s.front = len(idle) == 1
		}
	} else {
		l.give(r, s)
	}
	l.m.settle(s)
	return s
}

// give notes that the numbers of a settling are given back while the run goes on, and ends the tickets of arrivals that have
// no other. The caller holds mu.
func (l *line) give(r *run, s *settling) {
	r.given = queue.Clip(queue.Merge(append(r.given, s.ranges...)), r.Range)
	s.done = make(chan struct{})
	r.settlings = append(r.settlings, s)
	var keep []*arrival
	for _, a := range r.arrivals {
		// Below r.Lo all is given back, and forgotten.
		if len(queue.Subtract(queue.Range{Lo: max(a.Lo, r.Lo), Hi: a.Hi}, r.given)) == 0 {
			s.drop = append(s.drop, a)
		} else {
			keep = append(keep, a)
		}
	}
	r.arrivals = keep
}

// trim gives back, now and then and in the background, the numbers of runs in which somebody waits whose claims are over: those at the front,
// since a process in which somebody always waits would otherwise never settle anything, and those of callers who gave up behind one who waits,
// since others count them as waiting. Without it the run, its tickets and what Inspect shows would grow without end.
func (l *line) trim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.runs {
		if r.waits() { // of others settleIdle has given them back
			l.trimRun(r)
		}
	}
}

// trimRun is trim of one run. The caller holds mu.
func (l *line) trimRun(r *run) *settling {
	idle := r.idle()
	if len(idle) == 0 {
		return nil
	}
	s := l.newSettling(r, idle, nil)
	s.arrival = r.arrivals[0].index // at least that one is left; it says how far the queue is
	l.give(r, s)
	r.claims = slices.DeleteFunc(slices.Clone(r.claims), func(c *claim) bool { return c.state == over })
	r.next = 0
	r.Lo = r.lowestOpen()
	r.given = queue.Clip(r.given, r.Range)
	l.m.settle(s)
	return s
}

func (l *line) removeRun(r *run) {
	r.gone = true
	for i := range l.runs {
		if l.runs[i] == r {
			l.runs = append(l.runs[:i:i], l.runs[i+1:]...)
			return
		}
	}
}
