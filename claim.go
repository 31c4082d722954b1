package fairlock

import (
	"slices"
	"sync/atomic"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
)

// claimState is where one call of Lock is in its life. The line's mutex guards it.
type claimState uint8

const (
	// pending: waits for an enqueue to be sent.
	pending claimState = iota
	// asked: an enqueue that counts it is on its way.
	asked
	// queued: has numbers and waits for its turn.
	queued
	// held: granted, and handed to the caller.
	held
	// over: failed, cancelled or given back. Its numbers, if it has any, are settled or about to be.
	over
)

func (s claimState) String() string {
	return [...]string{"pending", "asked", "queued", "held", "over"}[s]
}

// claimTransitions is the table of all moves. asked and queued go back to pending when the enqueue failed, or the
// numbers became void.
var claimTransitions = [...][]claimState{
	pending: {asked, over},
	asked:   {pending, queued, over},
	queued:  {held, pending, over},
	held:    {over},
	over:    {},
}

// claim is one call of Lock or TryLock, from the call to the return of its units. All fields but lock are guarded by the
// line's mutex; lock and err may be read after ready is closed.
type claim struct {
	state claimState
	call  int64 // place among the line's calls
	units int64
	try   bool
	opts  *options
	num   queue.Range // from queued on
	run   *run        // from queued on
	// waited: it has had numbers, which became void. It is not refused for want of room: the numbers that are in its way may be its own.
	waited bool
	ahead  int64    // units that others had to give back first, when it got its numbers
	from   *arrival // from queued on
	ready  chan struct{}
	lock   *Lock // when granted
	err    error // when failed
}

func (c *claim) move(to claimState) {
	if !slices.Contains(claimTransitions[c.state], to) {
		panic("bug: claim cannot go from " + c.state.String() + " to " + to.String())
	}
	c.state = to
}

// fail ends a claim that was not granted.
func (c *claim) fail(err error) {
	c.move(over)
	c.err = err
	close(c.ready)
}

// run is consecutive numbers of this process. Inside it the lock is passed on without a write: the
// numbers being consecutive, settling one would admit the next of the same run and nobody else, so the order is
// the server's all the same. Guarded by the line's mutex.
type run struct {
	queue.Range
	lease    *reaper.Lease
	arrivals []*arrival
	claims   []*claim      // in number order
	next     int           // claims before it have been granted or are over
	inUse    int64         // units of granted claims
	given    []queue.Range // numbers given back (settled, or being settled), sorted
	granted  bool          // a claim was granted: see line.capacity
	gone     bool          // all is given back

	settlings []*settling // by which given was given, at least all that are not over
}

// arrival is the numbers of one enqueue, and their ticket.
type arrival struct {
	queue.Range
	line   *line
	index  int64 // arrival count of the lock document
	weight int64
	sent   clock.Instant
	lease  *reaper.Lease
	labels []string
	claims []*claim     // in number order, from the first that is not over
	passed atomic.Int64 // all numbers up to it are done with; written under the line's mutex, read by the ticket keeper
	ticket ticket
}

// pass notes how far the claims at the front are over.
func (a *arrival) pass() {
	for len(a.claims) > 0 && a.claims[0].state == over {
		a.passed.Store(a.claims[0].num.Hi)
		a.claims = a.claims[1:]
	}
}

// admitted is how many numbers of the run are admitted, not given back and trusted at now, when the lock's frontier is at least
// frontier. The state that frontier was read from admitted all numbers of the run up to it that were not settled then;
// what was given back since is taken off, whether it was settled in that state or not. So is what is not trusted: a reaper may
// have buried such a number, and a frontier that passed over it counts it as settled and not as capacity (found by
// model/, mutant BUG_BURIED).
func (r *run) admitted(frontier int64, now clock.Instant) int64 {
	upTo := func(x queue.Range) int64 { return max(min(x.Hi, frontier)-x.Lo+1, 0) }
	n := upTo(r.Range)
	if n == 0 {
		return 0
	}
	for _, g := range r.given {
		n -= upTo(g)
	}
	for _, a := range r.arrivals {
		if !a.trusted(now) {
			for _, open := range queue.Subtract(queue.Range{Lo: max(a.Lo, r.Lo), Hi: a.Hi}, r.given) {
				n -= upTo(open)
			}
		}
	}
	return n
}

// waits reports whether a claim of the run waits, and moves next to the first.
func (r *run) waits() bool {
	for ; r.next < len(r.claims); r.next++ {
		if r.claims[r.next].state == queued {
			return true
		}
	}
	return false
}

// idle returns the numbers that no claim uses and that have not been given back.
func (r *run) idle() []queue.Range {
	taken := slices.Clone(r.given)
	for _, c := range r.claims {
		if c.state == held || c.state == queued {
			taken = append(taken, c.num)
		}
	}
	return queue.Subtract(r.Range, queue.Merge(taken))
}

// open returns the numbers that have not been given back.
func (r *run) open() []queue.Range { return queue.Subtract(r.Range, r.given) }

// lowestOpen is the lowest number of the run that has not been given back.
func (r *run) lowestOpen() int64 {
	if open := r.open(); len(open) > 0 {
		return open[0].Lo
	}
	return r.Hi + 1
}
