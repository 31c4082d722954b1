package simulate

import (
	"fmt"

	"github.com/fairlock/fairlock/internal/history"
	"github.com/fairlock/fairlock/queue"
)

// sweepName is the lock that managers take to sweep, as package fairlock has it.
const sweepName = "\tsweep"

// steps checks every write on a lock document against the invariants that can be read off it.
type steps struct {
	w    *world
	last map[string]queue.View
}

func newSteps(w *world) *steps { return &steps{w: w, last: map[string]queue.View{}} }

// written runs inside the server, one write at a time.
func (s *steps) written(v queue.View) {
	was, known := s.last[v.Name]
	s.last[v.Name] = v
	s.w.tracef("lock %q: issued %d settled %d done %v frontier %d calls %d", v.Name, v.Issued, v.Settled, v.Done, v.Frontier, v.Calls)
	if v.Permits != was.Permits && (known || s.w.named(v.Name) != v.Permits) { // SetPermits can make the document
		s.w.record(history.Event{Kind: history.Resized, At: s.w.now(), Lock: v.Name, Lo: v.Issued + 1, Permits: v.Permits})
	}
	for _, rule := range broken(&was, &v, known) {
		s.w.fail(fmt.Sprintf("lock %q: %s: %+v after %+v", v.Name, rule, v, was))
	}
}

// named is the permits that users name for a lock.
func (w *world) named(lock string) int64 {
	for _, l := range w.plan.Locks {
		if l.Name == lock {
			return l.Shape.Permits
		}
	}
	return queue.Mutex.Permits
}

// broken returns what a lock document breaks, as such and beside the one before it.
func broken(was, v *queue.View, known bool) (rules []string) {
	rule := func(holds bool, what string) {
		if !holds {
			rules = append(rules, what)
		}
	}
	at := v.Settled
	for _, d := range v.Done {
		rule(d.Lo > at+1 && d.Lo <= d.Hi, "done is not sorted, disjoint and above settled")
		at = d.Hi
	}
	rule(at <= v.Issued, "a number was settled that was not issued")
	rule(v.Frontier >= frontier(v), "I2: the frontier is below its definition")
	if !known {
		return rules
	}
	rule(v.Issued >= was.Issued, "I1: issued went down")
	resized := v.Permits != was.Permits
	if v.Arrivals < was.Arrivals || v.Arrivals == was.Arrivals && v.Issued != was.Issued && !resized { // made anew, by an arrival
		rule(v.Settled >= was.Issued, "I1: a new document begins among old numbers")
		return rules
	}
	rule(v.Frontier >= was.Frontier, "I2: the frontier went down")
	rule(v.Frontier == max(was.Frontier, frontier(v)), "I2: the frontier is not its definition")
	rule(v.Settled >= was.Settled, "settled went down")
	rule(v.Calls >= was.Calls, "calls went down")
	if v.Frontier > was.Frontier && was.Issued > was.Frontier {
		rule(v.Calls > was.Calls, "somebody was admitted who waited, and calls did not grow")
	}
	return rules
}

// frontier is the greatest x such that at most permits of the numbers in (settled, x] are not in done.
func frontier(v *queue.View) int64 {
	x, left := v.Settled, v.Permits
	for _, d := range v.Done {
		if gap := d.Lo - x - 1; gap > left {
			break
		} else {
			left -= gap
			x = d.Hi
		}
	}
	return x + left
}

// unrest is what is left of the dead, while the living hold nothing: what is in their names is theirs, and one of them
// has the right to sweep.
func (w *world) unrest() []string {
	alive := map[string]bool{}
	for _, p := range w.living() {
		p.mu.Lock()
		if !p.closing {
			alive[p.m.Session()] = true
		}
		p.mu.Unlock()
	}
	sweep, _ := w.srv.Lock(sweepName)
	sweeping := queue.Range{Lo: sweep.Settled + 1, Hi: sweep.Issued}
	ticketed := false // the right to sweep is somebody's who lives
	locks := map[string]bool{}
	var left []string
	for _, v := range w.srv.Locks() {
		locks[v.Name] = true
		if v.Name != sweepName && (v.Settled != v.Issued || v.IdleSince == nil && !v.Managed) {
			left = append(left, fmt.Sprintf("lock %+v", v))
		}
	}
	for _, t := range w.srv.Tickets() {
		switch {
		case alive[t.Session] && t.ID.Lock == sweepName && t.Range() == sweeping:
			ticketed = true
		case alive[t.Session] && !locks[t.ID.Lock]:
			// A ticket that came late, of a lock that was deleted by hand: it goes with its session, or when the lock is used again.
		default:
			left = append(left, fmt.Sprintf("ticket %+v", t))
		}
	}
	for _, s := range w.srv.Sessions() {
		if !s.Ended && !alive[s.ID] {
			left = append(left, fmt.Sprintf("session %+v", s))
		}
	}
	if sweeping.Units() > 0 && !ticketed {
		left = append(left, fmt.Sprintf("the right to sweep: %+v", sweep))
	}
	return left
}
