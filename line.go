package fairlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
	"github.com/fairlock/fairlock/waiter"
)

// line is the local end of one lock's queue: the calls of this process, in the order in which they were made. It exists while
// there is one. mu is never held across a database call or while a user's code runs.
type line struct {
	m     *Manager
	name  string
	shape queue.Shape
	refs  int // live claims, and the enqueue on its way; guarded by Manager.mu

	mu       sync.Mutex // guards all below
	pending  []*claim   // in order; some may be over
	asking   bool       // an enqueue is on its way: at most one, so that number order is call order
	runs     []*run     // in number order, none gone
	frontier int64      // highest known; only grows, unless the lock document was made anew
	reached  int64      // newest arrival known to be settled
	watched  bool       // Watcher.Wait was called
	checking bool       // a goroutine finds out whether the document is gone
	lastErr  error      // newest failure of a call, to tell callers whose time runs out
}

// ask sends the pending claims' enqueue, if there are any and none is on its way. The caller holds mu.
func (l *line) ask() {
	if l.asking {
		return
	}
	batch := l.takePending()
	if len(batch) == 0 {
		return
	}
	l.asking = true
	l.m.ref(l) // until the outcome is known: a second arrival at the same time would take its slot in the lock document
	l.m.spawn(func() { l.enqueue(batch) })
}

// takePending removes the live pending claims that are of one weight, so that a ticket needs to tell only one. The
// caller holds mu.
func (l *line) takePending() []*claim {
	var batch []*claim
	i := 0
	for ; i < len(l.pending); i++ {
		c := l.pending[i]
		if c.state != pending {
			continue
		}
		if len(batch) > 0 && c.units != batch[0].units {
			break
		}
		c.move(asked)
		batch = append(batch, c)
	}
	l.pending = l.pending[i:]
	if len(l.pending) == 0 {
		l.pending = nil
	}
	return batch
}

// enqueue takes numbers for a batch. Callers that arrive meanwhile share the next one. It runs in a goroutine of its own
// and belongs to the manager, not to the callers: once numbers may have been issued, it goes on until it knows.
func (l *line) enqueue(batch []*claim) {
	m := l.m
	lease, err := m.session()
	if err != nil {
		l.notAsked(batch, err)
		return
	}
	l.mu.Lock()
	live := batch[:0:0]
	for _, c := range batch {
		if c.state == asked {
			live = append(live, c)
		}
	}
	before := l.frontier
	l.mu.Unlock()
	if len(live) == 0 {
		l.notAsked(nil, nil)
		return
	}
	sent := m.clock.Now()
	place, err := l.arrive(live[0].units*int64(len(live)), func(ctx context.Context, a queue.Arrival) (queue.Place, error) {
		return m.queue.Enqueue(ctx, l.name, l.shape, a)
	})
	if err != nil {
		l.notAsked(live, err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking = false
	l.lastErr = nil
	l.placed(live, place, lease, sent, before)
	l.ask()
	l.m.unref(l)
}

// arrive makes one arrival, and repeats the same one while the outcome is unknown: it is issued once. When that takes
// longer than the numbers could be trusted without a ticket, it gives up; if they were issued after all they are orphans for
// a reaper, as after a crash.
func (l *line) arrive(units int64, send func(context.Context, queue.Arrival) (queue.Place, error)) (queue.Place, error) {
	m := l.m
	a := queue.Arrival{Owner: m.owner, Mark: rand.Int64(), Units: units, Grace: m.cfg.TTL}
	giveUp := m.clock.Now().Add(m.cfg.TTL - m.cfg.Margin)
	for {
		ctx, cancel := m.opContext()
		place, err := send(ctx, a)
		cancel()
		m.stats.enqueues.Add(1)
		if err == nil || errors.Is(err, ErrBusy) || queue.Permanent(err) {
			return place, err
		}
		l.mu.Lock()
		l.lastErr = err
		l.mu.Unlock()
		m.log().Warn("fairlock: arrival not answered, repeating it", "lock", l.name, "error", err)
		if m.clock.Now() >= giveUp || !m.pause(retryPause) {
			return place, err
		}
	}
}

// notAsked ends an attempt that brought no numbers, and goes on with the next: at once for new callers when there was
// nothing left to ask for, after a pause when it failed, never when repeating cannot help.
func (l *line) notAsked(batch []*claim, err error) {
	permanent := queue.Permanent(err)
	if l.m.isClosed() {
		permanent = true
		err = errors.Join(ErrClosed, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastErr = err
	var again []*claim
	for _, c := range batch {
		switch {
		case c.state != asked:
		case permanent:
			l.failLocked(c, err)
		default:
			c.move(pending)
			again = append(again, c)
		}
	}
	l.pending = append(again, l.pending...)
	if err == nil || permanent {
		l.asking = false
		l.ask()
		l.m.unref(l)
		return
	}
	l.m.log().Warn("fairlock: no number", "lock", l.name, "error", err)
	l.m.after(retryPause, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asking = false
		l.ask()
		l.m.unref(l)
	})
}

// placed gives a batch its numbers. before is the frontier that was known when the enqueue was sent: a lower one in
// the reply means that the document was made anew with lower numbers, since the frontier of one document never goes
// down (I2). The caller holds mu.
func (l *line) placed(batch []*claim, place queue.Place, lease *reaper.Lease, sent clock.Instant, before int64) {
	if place.View.Frontier < before {
		l.frontier = 0
		for _, r := range l.runs {
			l.voidLocked(r, LostSettled)
		}
	}
	a := &arrival{
		Range: place.Range, line: l, index: place.Arrival, weight: batch[0].units, sent: sent, lease: lease,
	}
	r := l.joinRun(a)
	at := place.Lo
	for i, c := range batch {
		c.num = queue.Range{Lo: at, Hi: at + c.units - 1}
		at += c.units
		c.run, c.from = r, a
		if i < queue.MaxLabels {
			a.labels = append(a.labels, l.m.labelOf(c))
		}
		if c.state == asked { // or over: cancelled on the way
			c.move(queued)
		}
		r.claims = append(r.claims, c)
	}
	a.claims = batch
	a.pass()
	if l.m.isClosed() {
		// Close has walked over the lines, or waits for this mutex to walk over this one: nothing is granted any more.
		l.closeRun(r)
		return
	}
	l.m.tickets.watch(a)
	l.learnLocked(place.View)
	if r.gone {
		return
	}
	if lease.State() == reaper.Ended {
		// It ended while the enqueue was on its way, and the walk over all lines may have come before this.
		l.voidLocked(r, LostSession)
		return
	}
	l.settleIdle(r)
	l.watchLocked()
}

// joinRun adds an arrival to the newest run if it goes on where that ends, and otherwise begins one. The caller holds mu.
func (l *line) joinRun(a *arrival) *run {
	if n := len(l.runs); n > 0 {
		if last := l.runs[n-1]; last.Hi+1 == a.Lo && last.lease == a.lease {
			last.Hi = a.Hi
			last.arrivals = append(last.arrivals, a)
			return last
		}
	}
	r := &run{Range: a.Range, lease: a.lease, arrivals: []*arrival{a}}
	l.runs = append(l.runs, r)
	return r
}

// learnLocked takes in what a majority-committed lock document said. The caller holds mu.
func (l *line) learnLocked(v queue.View) (granted int64) {
	l.reached = max(l.reached, v.Reached)
	for _, r := range l.runs { // voidLocked replaces l.runs, this walk goes on over the old one
		// A number that we have not settled is settled: somebody else did it, or the document was made anew.
		if v.Settled >= r.lowestOpen() {
			l.voidLocked(r, LostSettled)
		}
	}
	frontier := v.Frontier
	if l.shape.Permits == 1 && v.Settled >= 0 {
		// The frontier also passes over numbers that were settled out of order, and ours may be one of them (its session
		// was ended by hand). With one permit settled says the same without that doubt: the head is the number after it.
		frontier = v.Settled + 1
	}
	l.frontier = max(l.frontier, frontier)
	return l.admitLocked()
}

// admitLocked hands out what is admitted: in each run the next waiting claim, as long as it fits whole (nobody overtakes
// a bigger one) and we can be sure that no reaper has settled its number. The caller holds mu.
func (l *line) admitLocked() (granted int64) {
	for _, r := range l.runs { // settleSpare may replace l.runs, this walk goes on over the old one
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
		lock.start()
		granted++
		close(c.ready)
	}
	l.m.stats.grants.Add(granted)
	return granted
}

// settleSpare gives back what is left of a run's capacity when nobody in it waits for it: with several permits, who was granted
// last can need less than those who left. With one permit there is never anything left. The caller holds mu.
func (l *line) settleSpare(r *run) *settling {
	if l.shape.Permits == 1 || r.inUse == 0 || r.inUse >= l.capacity(r) {
		return nil
	}
	return l.settleIdle(r)
}

// capacity is how many units of the run may be in use. With one permit, a run of which a claim was granted is the head of the
// queue until it ends: a granted number is admitted and not settled, so with one permit it is the first such number, all
// before it are settled, and nobody else's lies inside the run. Whatever number of it is the lowest one left, nobody can be
// admitted before that one is settled. The caller holds mu.
func (l *line) capacity(r *run) int64 {
	if l.shape.Permits == 1 && r.granted {
		return 1
	}
	return r.admitted(l.frontier)
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
	s := l.settleIdle(r)
	if !r.gone {
		l.trim(r)
		l.admitRun(r)
		if s == nil {
			s = l.settleSpare(r)
		}
		l.admitLocked()
	}
	l.watchLocked()
	return s
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
		l.m.spawn(func() { l.m.tickets.finish(r.arrivals) })
		return nil
	}
	s := &settling{line: l, ranges: idle, arrival: r.arrivals[len(r.arrivals)-1].index, done: make(chan struct{})}
	if r.inUse == 0 {
		s.drop = r.arrivals
		l.removeRun(r)
		if l.shape.Permits == 1 && r.granted { // see capacity: nothing was left before what follows the run
			s.opens = r.Hi + 1
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
	r.given = queue.Merge(append(r.given, s.ranges...))
	var keep []*arrival
	for _, a := range r.arrivals {
		if len(queue.Subtract(a.Range, r.given)) == 0 {
			s.drop = append(s.drop, a)
		} else {
			keep = append(keep, a)
		}
	}
	r.arrivals = keep
}

// trimPause is the least time between two trims of a run.
const trimPause = time.Second

// trim gives back the numbers at the front of a run whose claims are over, now and then and in the background. A process in
// which somebody always waits would otherwise never settle anything, and the run, its tickets and what Inspect shows would grow
// without end. The caller holds mu.
func (l *line) trim(r *run) {
	now := l.m.clock.Now()
	if r.trimmed == 0 {
		r.trimmed = now
	}
	if now.Sub(r.trimmed) < trimPause {
		return
	}
	r.trimmed = now
	n := 0
	for n < len(r.claims) && r.claims[n].state == over {
		n++
	}
	if n == 0 || n == len(r.claims) {
		return
	}
	front := queue.Range{Lo: r.Lo, Hi: r.claims[n].num.Lo - 1}
	s := &settling{line: l, ranges: queue.Subtract(front, r.given), arrival: r.arrivals[0].index, done: make(chan struct{})}
	l.give(r, s)
	r.claims = append([]*claim(nil), r.claims[n:]...)
	r.next = max(r.next-n, 0)
	r.Lo = front.Hi + 1
	r.given = queue.Clip(r.given, r.Range)
	if len(s.ranges) > 0 {
		l.m.settle(s)
	} else {
		l.m.spawn(func() { l.m.tickets.finish(s.drop) })
	}
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

// voidLocked ends a run whose numbers cannot be trusted any more, for ever: those who hold are told, those who wait queue
// again at the tail, and what is left is settled, which does no harm where somebody else has done it. The caller
// holds mu.
func (l *line) voidLocked(r *run, why LossReason) {
	l.removeRun(r)
	var again []*claim
	for _, c := range r.claims {
		switch c.state {
		case held:
			c.lock.lose(why)
		case queued:
			c.move(pending)
			again = append(again, c)
		}
	}
	if len(again) > 0 {
		l.m.stats.requeued.Add(int64(len(again)))
		l.pending = append(again, l.pending...)
	}
	l.settleVoid(&settling{line: l, ranges: queue.Subtract(r.Range, r.given), drop: r.arrivals, done: make(chan struct{})},
		why == LostTicket && r.inUse > 0)
	l.ask()
	l.watchLocked()
}

// settleVoid settles void numbers. When it is this process's own verdict and somebody held them, it gives the holder the
// time to stop: nobody else has settled them, and reapers wait for as long.
func (l *line) settleVoid(s *settling, held bool) {
	if held {
		l.m.after(l.m.cfg.Margin, func() { l.m.settle(s) })
		return
	}
	l.m.settle(s)
}

// watchLocked keeps the watcher informed whether an event can help anybody here. The caller holds mu.
func (l *line) watchLocked() {
	r := l.firstBlocked()
	switch {
	case r != nil && !l.watched:
		l.watched = true
		l.m.watcher.Wait(l.name, r.arrivals[0].sent)
	case r == nil && l.watched:
		l.watched = false
		l.m.watcher.Leave(l.name)
	}
}

// firstBlocked is the first run with a claim that only somebody else's leaving can help. The caller holds mu.
func (l *line) firstBlocked() *run {
	for _, r := range l.runs {
		if !r.waits() {
			continue
		}
		// With one permit a run that has it passes it on by itself. With more, leaving claims of the run can help too, but
		// not only they, until all of it is admitted.
		if l.shape.Permits == 1 && l.capacity(r) < r.claims[r.next].units || l.shape.Permits > 1 && l.frontier < r.Hi {
			return r
		}
	}
	return nil
}

// target is what a reaper should look at, if anything.
func (l *line) target() (reaper.Target, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.firstBlocked()
	if r == nil {
		return reaper.Target{}, false
	}
	return reaper.Target{Name: l.name, Below: r.lowestOpen(), Ahead: max(r.arrivals[0].index-l.reached-1, 0)}, true
}

// failLocked ends a claim without a grant. The caller holds mu.
func (l *line) failLocked(c *claim, err error) {
	c.fail(err)
	l.m.unref(l)
}

// notice takes in a watcher's news.
func (l *line) notice(n waiter.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.Missing {
		l.checkGone()
		return
	}
	l.m.stats.grantedBy[n.Origin].Add(l.learnLocked(n.View))
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

func (l *line) voidArrival(r *run, a *arrival) {
	if len(r.arrivals) == 1 {
		l.voidLocked(r, LostTicket)
		return
	}
	wasHeld := false
	var again, keep []*claim
	for _, c := range r.claims {
		switch {
		case c.from != a:
			keep = append(keep, c)
		case c.state == held:
			wasHeld = true
			c.lock.lose(LostTicket)
			r.inUse -= c.units
			c.run = &run{gone: true}
		case c.state == queued:
			c.move(pending)
			again = append(again, c)
		}
	}
	r.claims, r.next = keep, 0
	s := &settling{line: l, ranges: queue.Subtract(a.Range, r.given), done: make(chan struct{})}
	l.give(r, s)
	l.settleVoid(s, wasHeld)
	l.m.stats.requeued.Add(int64(len(again)))
	l.pending = append(again, l.pending...)
	if wasHeld && l.shape.Permits == 1 {
		// The numbers behind it in the run are not admitted before it is settled, Margin from now, and are then by that fact.
		r.granted = false
	}
	l.settleIdle(r)
	l.admitLocked()
	l.ask()
}
