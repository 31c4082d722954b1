package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/waiter"
)

// slots and numbersPerMilli are those of package queue.
const (
	slots           = 16
	numbersPerMilli = 1024
)

// lock is a lock document.
type lock struct {
	queue.Reference
	slots               [slots]slot
	graceMS             int64
	calledAt, idleSince *time.Time
	request             *queue.Request
	forces              int64
	audit               []queue.Forced
}

// slot is the newest arrival of the processes that share it.
type slot struct {
	used              bool
	mark, hi, arrival int64
}

func (l *lock) view(name string, done bool) queue.View {
	v := queue.View{
		Name: name, Kind: l.Kind, Permits: l.Permits, Issued: l.Issued, Settled: l.Settled, Frontier: l.Frontier,
		Arrivals: l.Arrivals, Reached: l.Reached, Calls: l.Calls, CalledAt: l.calledAt, GraceMS: l.graceMS,
		IdleSince: l.idleSince, Managed: l.Managed, Request: l.request,
	}
	if n := len(l.audit); n > 0 {
		v.Forces, v.Forced = l.forces, l.audit[n-1].Token
	}
	if done {
		v.Done = l.Done
		v.Audit = l.audit
	}
	return v
}

// Queue is a [Client] as a queue.Store.
type Queue struct{ c *Client }

var _ queue.Store = Queue{}

// Queue returns the client's side for locks and tickets.
func (c *Client) Queue() Queue { return Queue{c} }

// Enqueue implements [queue.Store].
func (q Queue) Enqueue(ctx context.Context, name string, shape queue.Shape, a queue.Arrival) (queue.Place, error) {
	return write(ctx, q.c, OpEnqueue, name, func(st *state) (queue.Place, bool, error) {
		p, _, changed, err := st.arrive(name, shape, a, false)
		return p, changed, err
	})
}

// Try implements [queue.Store].
func (q Queue) Try(ctx context.Context, name string, shape queue.Shape, a queue.Arrival) (queue.Place, bool, error) {
	type reply struct {
		queue.Place
		admitted bool
	}
	r, err := write(ctx, q.c, OpTry, name, func(st *state) (reply, bool, error) {
		p, admitted, changed, err := st.arrive(name, shape, a, true)
		return reply{p, admitted}, changed, err
	})
	return r.Place, r.admitted, err
}

// arrive is the arrive pipeline: make the document, and issue numbers unless the slot shows that it was done before.
func (st *state) arrive(name string, shape queue.Shape, a queue.Arrival, try bool) (p queue.Place, issued, changed bool, err error) {
	l, found := st.locks[name]
	if !found {
		st.time()
		l = &lock{Reference: *queue.NewReference(shape, st.clusterMS*numbersPerMilli)}
	}
	view := l.view(name, true)
	if !view.Agrees(shape) {
		return queue.Place{}, false, false, &queue.MismatchError{Name: name, Want: shape, Have: l.Shape}
	}
	s := &l.slots[a.Owner%slots]
	switch repeat := s.used && s.mark == a.Mark; {
	case repeat:
		issued = true
	case a.Weight > l.Permits:
		return queue.Place{}, false, false, &queue.TooBigError{Name: name, Units: a.Weight, Permits: l.Permits}
	case !try && a.Limit > 0 && view.Excess()+a.Units > a.Limit:
		return queue.Place{}, false, false, a.Refusal(name, view)
	case !try || l.Issued+a.Units <= l.Frontier:
		if l.Settled == l.Issued {
			l.graceMS = 0
		}
		l.graceMS = max(l.graceMS, a.Grace.Milliseconds())
		r := l.Enqueue(a.Units)
		l.idleSince = nil
		*s = slot{used: true, mark: a.Mark, hi: r.Hi, arrival: l.Arrivals}
		issued = true
	}
	st.put(name, l)
	p.View = l.view(name, false)
	p.View.Request = nil // not part of the reply
	if issued {
		p.Range, p.Arrival = queue.Range{Lo: s.hi - a.Units + 1, Hi: s.hi}, s.arrival
	}
	return p, issued, issued || !found, nil
}

// SettleFront implements [queue.Store].
func (q Queue) SettleFront(ctx context.Context, name string, shape queue.Shape, r queue.Range, arrival int64) (bool, error) {
	return q.settle(ctx, name, []queue.Range{r}, arrival, func(l *lock) bool {
		return l.Settled == r.Lo-1 && len(l.Done) == 0 && l.Permits == shape.Permits
	})
}

// Settle implements [queue.Store].
func (q Queue) Settle(ctx context.Context, name string, ranges []queue.Range, arrival int64) (bool, error) {
	return q.settle(ctx, name, ranges, arrival, func(*lock) bool { return true })
}

func (q Queue) settle(ctx context.Context, name string, ranges []queue.Range, arrival int64, when func(*lock) bool) (bool, error) {
	return write(ctx, q.c, OpSettle, name, func(st *state) (bool, bool, error) {
		l, found := st.locks[name]
		if !found || !when(l) {
			return false, false, nil
		}
		was := l.Reference
		if !l.Settle(ranges, arrival) {
			return false, false, nil
		}
		st.settled(name, l, was, false)
		return true, true, nil
	})
}

// settled stores a lock document of which something was settled, and tells of it if somebody was admitted by that.
func (st *state) settled(name string, l *lock, was queue.Reference, forced bool) {
	now := st.time()
	if l.Idle {
		l.idleSince = &now
	}
	called := l.Calls != was.Calls
	if called {
		l.calledAt = &now
	}
	st.put(name, l)
	if called {
		e := waiter.Event{Name: name, Settled: l.Settled, Frontier: l.Frontier}
		if forced {
			e.Forces, e.Forced = l.forces, l.audit[len(l.audit)-1].Token
		}
		st.emit(e)
	}
}

// SetPermits implements [queue.Store].
func (q Queue) SetPermits(ctx context.Context, name string, permits int64) error {
	_, err := write(ctx, q.c, OpSetPermits, name, func(st *state) (struct{}, bool, error) {
		want := queue.Shape{Kind: queue.KindSemaphore, Permits: permits}
		l, found := st.locks[name]
		now := st.time()
		if !found {
			l = &lock{Reference: *queue.NewReference(want, st.clusterMS*numbersPerMilli)}
		}
		if l.Kind != want.Kind {
			return struct{}{}, false, &queue.MismatchError{Name: name, Want: want, Have: l.Shape}
		}
		was := l.Permits
		l.Reference.SetPermits(permits)
		l.idleSince, l.calledAt = nil, &now
		st.put(name, l)
		e := waiter.Event{Name: name, Settled: l.Settled, Frontier: l.Frontier}
		if permits != was {
			e.Permits = permits
		}
		st.emit(e)
		return struct{}{}, true, nil
	})
	return err
}

// RequestRelease implements [queue.Store].
func (q Queue) RequestRelease(ctx context.Context, name, by string) (bool, error) {
	return write(ctx, q.c, OpRequest, name, func(st *state) (bool, bool, error) {
		l, found := st.locks[name]
		if !found || l.Settled == l.Issued {
			return false, false, nil
		}
		n := int64(1)
		if l.request != nil {
			n = l.request.N + 1
		}
		l.request = &queue.Request{N: n, UpTo: min(l.Frontier, l.Issued), By: by, At: st.time()}
		st.put(name, l)
		return true, true, nil
	})
}

// mostAudit is that of package queue.
const mostAudit = 16

// Force implements [queue.Store].
func (q Queue) Force(ctx context.Context, name string, passed int64, r queue.Range, f queue.Forced) (bool, error) {
	return write(ctx, q.c, OpForce, name, func(st *state) (bool, bool, error) {
		l, found := st.locks[name]
		if !found {
			return false, false, nil
		}
		was := l.Reference
		if !l.Reference.Force(passed, r) {
			return false, false, nil
		}
		f.At = st.time()
		l.audit = append(slices.Clone(l.audit), f)
		l.audit = l.audit[max(len(l.audit)-mostAudit, 0):]
		l.forces++
		st.settled(name, l, was, true)
		return true, true, nil
	})
}

// Views implements [queue.Store].
func (q Queue) Views(ctx context.Context, names []string) ([]queue.View, error) {
	return read(ctx, q.c, OpViews, "", func(st *state) []queue.View { return st.views(names) })
}

func (st *state) views(names []string) []queue.View {
	var all []queue.View
	for _, name := range names {
		if l, ok := st.locks[name]; ok {
			all = append(all, l.view(name, false))
		}
	}
	return all
}

// View implements [queue.Store].
func (q Queue) View(ctx context.Context, name string) (queue.View, bool, error) {
	found := false
	v, err := read(ctx, q.c, OpView, name, func(st *state) queue.View {
		v := queue.View{Name: name}
		var l *lock
		if l, found = st.locks[name]; found {
			v = l.view(name, true)
		}
		v.Now = st.time()
		return v
	})
	return v, found && err == nil, err
}

// Gone implements [queue.Store]. It is never served from the past.
func (q Queue) Gone(ctx context.Context, name string) (bool, error) {
	return call(ctx, q.c, OpGone, name, func() (bool, error) {
		_, found := q.c.srv.Lock(name)
		return !found, nil
	})
}

// Page implements [queue.Store].
func (q Queue) Page(ctx context.Context, after string, limit int) ([]queue.View, error) {
	return read(ctx, q.c, OpPage, "", func(st *state) []queue.View {
		var all []queue.View
		for _, name := range st.namesIn(after, limit, func(*lock) bool { return true }) {
			l := st.locks[name]
			all = append(all, l.view(name, true))
		}
		return all
	})
}

// Collect implements [queue.Store]. Nothing in memory grows old enough.
func (q Queue) Collect(ctx context.Context) error {
	_, err := call(ctx, q.c, OpCollect, "", func() (struct{}, error) { return struct{}{}, nil })
	return err
}

// BusyLocks implements [queue.Store].
func (q Queue) BusyLocks(ctx context.Context, after string, limit int) ([]string, error) {
	return read(ctx, q.c, OpBusyLocks, "", func(st *state) []string {
		return st.namesIn(after, limit, func(l *lock) bool { return l.idleSince == nil })
	})
}
