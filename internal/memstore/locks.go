package memstore

import (
	"context"
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
		IdleSince: l.idleSince,
	}
	if done {
		v.Done = l.Done
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
		l = lock{Reference: *queue.NewReference(shape, st.clusterMS*numbersPerMilli)}
	}
	if l.Shape != shape {
		return queue.Place{}, false, false, &queue.MismatchError{Name: name, Want: shape, Have: l.Shape}
	}
	s := &l.slots[a.Owner%slots]
	view := l.view(name, true)
	switch repeat := s.used && s.mark == a.Mark; {
	case repeat:
		issued = true
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
		if !found || !when(&l) {
			return false, false, nil
		}
		was := l.Reference
		if !l.Settle(ranges, arrival) {
			return false, false, nil
		}
		now := st.time()
		if l.Idle {
			l.idleSince = &now
		}
		if l.Calls != was.Calls {
			l.calledAt = &now
		}
		st.put(name, l)
		if l.Calls != was.Calls {
			e := waiter.Event{Name: name, Settled: -1, Frontier: l.Frontier}
			if l.Settled != was.Settled {
				e.Settled = l.Settled
			}
			st.emit(e)
		}
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
		var l lock
		l, found = st.locks[name]
		v := l.view(name, true)
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
