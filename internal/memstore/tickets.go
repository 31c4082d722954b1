package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/queue"
)

type none = struct{}

// PutTicket implements [queue.Store].
func (q Queue) PutTicket(ctx context.Context, t queue.Ticket, age time.Duration) error {
	_, err := write(ctx, q.c, OpPutTicket, t.ID.Lock, func(st *state) (none, bool, error) {
		old, found := st.tickets[t.ID]
		if found && old.Session != t.Session {
			return none{}, false, queue.ErrTombstone
		}
		t := t
		t.Labels = slices.Clone(t.Labels[:min(len(t.Labels), queue.MaxLabels)])
		t.At, t.Passed = st.time().Add(-age), 0
		if found {
			t.At, t.Passed = old.At, old.Passed
		}
		st.tickets[t.ID] = t
		return none{}, true, nil
	})
	return err
}

// MarkPassed implements [queue.Store].
func (q Queue) MarkPassed(ctx context.Context, id queue.TicketID, session string, passed int64) error {
	_, err := write(ctx, q.c, OpMarkPassed, id.Lock, func(st *state) (none, bool, error) {
		t, found := st.tickets[id]
		if !found || t.Session != session || t.Passed >= passed {
			return none{}, false, nil
		}
		t.Passed = passed
		st.tickets[id] = t
		return none{}, true, nil
	})
	return err
}

// DropTickets implements [queue.Store]. Each ticket must be of a settled range, or its lock gone; a violation is
// a bug of the caller and panics.
func (q Queue) DropTickets(ctx context.Context, ids []queue.TicketID) error {
	_, err := write(ctx, q.c, OpDropTickets, "", func(st *state) (none, bool, error) {
		changed := false
		for _, id := range ids {
			t, found := st.tickets[id]
			l, there := st.locks[id.Lock]
			if st == q.c.srv.now && found && there && len(queue.Subtract(t.Range(), l.settled())) > 0 {
				q.c.srv.bug(fmt.Sprintf("ticket %+v dropped before its range was settled: issued %d, settled %d, done %v", t, l.Issued, l.Settled, l.Done))
			}
			delete(st.tickets, id)
			changed = changed || found
		}
		return none{}, changed, nil
	})
	return err
}

// settled is all settled numbers, sorted.
func (l *lock) settled() []queue.Range {
	return append([]queue.Range{{Lo: 0, Hi: l.Settled}}, l.Done...)
}

// Bury implements [queue.Store], in its two steps.
func (q Queue) Bury(ctx context.Context, name string, gaps []queue.Range) ([]queue.Range, error) {
	_, err := call(ctx, q.c, OpBury, name, func() (none, error) {
		q.c.srv.mu.Lock()
		defer q.c.srv.mu.Unlock()
		q.c.srv.now.bury(name, gaps)
		return none{}, nil
	})
	if err != nil {
		return nil, err
	}
	return call(ctx, q.c, OpBuryRead, name, func() ([]queue.Range, error) {
		q.c.srv.mu.Lock()
		defer q.c.srv.mu.Unlock()
		return q.c.srv.now.unticketed(name, gaps)
	})
}

func (st *state) bury(name string, gaps []queue.Range) {
	for _, g := range gaps {
		for n := g.Lo; n <= g.Hi; n++ {
			id := queue.TicketID{Lock: name, Lo: n}
			if _, stands := st.tickets[id]; !stands {
				st.tickets[id] = queue.Ticket{ID: id, Hi: n, At: st.time(), Labels: []string{}, Weight: 1, Tomb: true} // weight as decodeTicket has it
			}
		}
	}
}

// unticketed returns the parts of gaps that no ticket covers. A number without ticket and tombstone is an error.
func (st *state) unticketed(name string, gaps []queue.Range) ([]queue.Range, error) {
	var live, dead []queue.Range
	for id, t := range st.tickets {
		switch {
		case id.Lock != name:
		case t.Tomb:
			dead = append(dead, t.Range())
		default:
			live = append(live, t.Range())
		}
	}
	byLo := func(a, b queue.Range) int { return cmp.Compare(a.Lo, b.Lo) }
	slices.SortFunc(live, byLo)
	slices.SortFunc(dead, byLo)
	var covered []queue.Range
	for _, g := range gaps {
		for _, r := range queue.Subtract(g, live) {
			if open := queue.Subtract(r, dead); len(open) > 0 {
				return covered, fmt.Errorf("memstore: lock %q: no tombstone at %v", name, open)
			}
			covered = append(covered, r)
		}
	}
	return covered, nil
}

// Tickets implements [queue.Store].
func (q Queue) Tickets(ctx context.Context, name string, hi int64, limit int) ([]queue.Ticket, error) {
	return q.find(ctx, OpTickets, name, limit, func(t *queue.Ticket) bool { return t.ID.Lock == name && t.ID.Lo <= hi })
}

// TicketsOfSession implements [queue.Store].
func (q Queue) TicketsOfSession(ctx context.Context, session string, after queue.TicketID, limit int) ([]queue.Ticket, error) {
	return q.find(ctx, OpOfSession, session, limit, func(t *queue.Ticket) bool {
		return t.Session == session && compareIDs(t.ID, after) > 0
	})
}

// AllTickets implements [queue.Store].
func (q Queue) AllTickets(ctx context.Context, after queue.TicketID, limit int) ([]queue.Ticket, error) {
	return q.find(ctx, OpAllTickets, "", limit, func(t *queue.Ticket) bool { return compareIDs(t.ID, after) > 0 })
}

func (q Queue) find(ctx context.Context, op Op, name string, limit int, filter func(*queue.Ticket) bool) ([]queue.Ticket, error) {
	return read(ctx, q.c, op, name, func(st *state) []queue.Ticket { return st.ticketsIn(limit, filter) })
}
