package fairlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fairlock/fairlock/internal/chance"
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

	managed atomic.Bool // the document has shown that its permits are those of SetPermits

	mu       sync.Mutex    // guards all below
	pending  []*claim      // in order; some may be over
	asking   bool          // an enqueue is on its way: at most one, so that number order is call order
	runs     []*run        // in number order, none gone
	frontier int64         // highest known, or proved by our own settles; only grows, unless the lock document was made anew
	shown    int64         // highest frontier that a document has shown
	calls    int64         // claims so far, to keep them in the order of their calls
	reached  int64         // newest arrival known to be settled
	forces   int64         // of the document: which of our numbers were settled by force up to there is known
	looking  bool          // a goroutine finds out which were since; the frontier counts them as settled, and is not to be used before
	wanted   int64         // forces that the goroutine has to see
	looks    chan struct{} // closed when it has ended
	lookUpTo int64         // of which of our numbers: those that came later were not forced by then
	asked    queue.Request // newest request for release that the holders have heard of
	watched  bool          // Watcher.Wait was called
	checking bool          // a goroutine finds out whether the document is gone
	lastErr  error         // newest failure of a call, to tell callers whose time runs out
}

// exclusive reports whether the lock is a mutex: one permit, for ever. A semaphore of one permit may be given more.
func (l *line) exclusive() bool { return l.shape == queue.Mutex }

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
		if len(batch) > 0 && (c.units != batch[0].units || c.waited != batch[0].waited) {
			break
		}
		if most := l.mostWaiting(); most > 0 && len(batch) > 0 && int64(len(batch)+1)*c.units > most+l.shape.Permits {
			break // more would be refused by an empty queue
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
	before := l.shown
	l.mu.Unlock()
	if len(live) == 0 {
		l.notAsked(nil, nil)
		return
	}
	var sent clock.Instant
	var place queue.Place
	limit := l.mostWaiting()
	if live[0].waited {
		limit = 0
	}
	for len(live) > 0 {
		sent = m.clock.Now()
		weight := live[0].units
		place, err = l.arrive(weight*int64(len(live)), weight, limit, func(ctx context.Context, a queue.Arrival) (queue.Place, error) {
			return m.queue.Enqueue(ctx, l.name, l.shape, a)
		})
		if err == nil || !errors.Is(err, ErrTooManyWaiters) {
			break
		}
		live = l.turnAway(live, err)
	}
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

// mostWaiting is Config.MaxWaiters in units. Of a read/write lock a writer counts as one, and so do as many readers as can read at a time.
func (l *line) mostWaiting() int64 {
	most := int64(l.m.cfg.MaxWaiters)
	if l.shape.Kind == queue.KindRW {
		most *= queue.Readers
	}
	return most
}

// turnAway fails the claims of a batch for which there was no room, the last ones, and returns the rest.
func (l *line) turnAway(live []*claim, err error) []*claim {
	var full *queue.TooManyWaitersError
	if !errors.As(err, &full) {
		panic("bug: ErrTooManyWaiters of another type: " + err.Error())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fit := int(min(full.Room/live[0].units, int64(len(live)-1)))
	if l.shape.Kind == queue.KindRW {
		full.Limit /= queue.Readers
		full.Waiting = (full.Waiting + queue.Readers - 1) / queue.Readers
		full.Room /= queue.Readers
	}
	for _, c := range live[fit:] {
		if c.state == asked {
			l.failLocked(c, full)
		}
	}
	return live[:fit]
}

// arrive makes one arrival, and repeats the same one while the outcome is unknown: it is issued once. When that takes
// longer than the numbers could be trusted without a ticket, it gives up; if they were issued after all they are orphans for
// a reaper, as after a crash.
func (l *line) arrive(units, weight, limit int64, send func(context.Context, queue.Arrival) (queue.Place, error)) (queue.Place, error) {
	m := l.m
	a := queue.Arrival{
		Owner: m.owner, Mark: int64(chance.Uint64(m.chance)), Units: units, Weight: weight, Grace: m.cfg.lease(), Limit: limit,
	}
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
	if !permanent {
		l.lastErr = err // a refusal is for those who are refused
	}
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
	l.requeue(again)
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

// placed gives a batch its numbers. before is the frontier that documents had shown when the enqueue was sent: a lower one in
// the reply means that the document was made anew with lower numbers, since the frontier of one document never goes
// down (I2). The caller holds mu.
func (l *line) placed(batch []*claim, place queue.Place, lease *reaper.Lease, sent clock.Instant, before int64) {
	if place.View.Frontier < before {
		l.frontier, l.shown, l.reached, l.wanted = 0, 0, 0, 0
		for _, r := range l.runs {
			l.voidLocked(r, LostSettled)
		}
	}
	if len(l.runs) == 0 || place.View.Forces < l.forces {
		// None of it was ours; or the document was made anew and counts from the beginning. Where the reply is only older than what is
		// known, the next document has the line look once more.
		l.forces = place.View.Forces
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
		c.ahead = max(c.num.Hi-place.View.Frontier, 0)
		if i < queue.MaxLabels {
			a.labels = append(a.labels, l.m.labelOf(c))
		}
		if c.state == asked { // or over: cancelled on the way
			c.move(queued)
			c.waited = true
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

// requeue puts claims back to the pending ones, in the order of their calls: others may have been put back meanwhile. The
// caller holds mu.
func (l *line) requeue(claims []*claim) {
	l.pending = append(claims, l.pending...)
	slices.SortFunc(l.pending, func(a, b *claim) int { return cmp.Compare(a.call, b.call) })
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

// watchLocked keeps the watcher informed whether an event can help anybody here. The caller holds mu.
func (l *line) watchLocked() {
	r := l.firstBlocked()
	switch {
	case r != nil && !l.watched:
		l.watched = true
		l.m.watcher.Wait(l.name, r.arrivals[0].sent, l.ahead(r), l.width(r))
	case r != nil:
		l.m.watcher.Ahead(l.name, l.ahead(r))
	case r == nil && l.watched:
		l.watched = false
		l.m.watcher.Leave(l.name)
	}
}

// ahead is how many arrivals at most, and at least one, have to leave before the next claim of a blocked run is admitted. With
// several permits the newest arrival that left says too little, and the frontier says it in units. The caller holds mu.
func (l *line) ahead(r *run) int64 {
	c := r.claims[r.next]
	return max(min(c.from.index-1-l.reached, c.num.Hi-l.frontier), 1)
}

// width is how many claims like the next of a run can hold at a time. The caller holds mu.
func (l *line) width(r *run) int64 { return max(l.shape.Permits/r.claims[r.next].units, 1) }

// firstBlocked is the first run with a claim that only somebody else's leaving can help. The caller holds mu.
func (l *line) firstBlocked() *run {
	for _, r := range l.runs {
		if !r.waits() {
			continue
		}
		// With one permit a run that has it passes it on by itself. With more, leaving claims of the run can help too, but
		// not only they, until all of it is admitted.
		if l.exclusive() && l.capacity(r) < r.claims[r.next].units || !l.exclusive() && l.frontier < r.Hi {
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
	return reaper.Target{
		Name: l.name, Below: r.lowestOpen(), Ahead: max(r.arrivals[0].index-l.reached-1, 0),
		// With several permits a queue can move past a dead holder.
		Moving: l.exclusive() && l.m.watcher.Dozes(l.name),
	}, true
}
