package fairlock

import (
	"context"
	"time"

	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/waiter"
)

// audit compares, a few times per lease, what this process believes to hold with what the database says: locks whose document
// is gone or shows the number as settled are lost, tickets that are gone are written again before a reaper could take the
// number for an orphan, and tickets that nobody here knows of are cleared. While nothing has been held or waited for
// longer than one round it makes no call.
func (m *Manager) audit(ctx context.Context) {
	tick := time.NewTicker(max(m.cfg.TTL/3, 500*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if names := m.oldNames(); len(names) > 0 {
			m.auditLocks(ctx, names)
		}
		m.auditTickets(ctx)
	}
}

// oldNames returns the locks that this process holds and took its place in longer than a round ago. Those that it waits for are
// read by the watcher.
func (m *Manager) oldNames() []string {
	limit := m.clock.Now().Add(-m.cfg.TTL / 3)
	var names []string
	for _, l := range m.allLines() {
		l.mu.Lock()
		if len(l.runs) > 0 && (l.runs[0].inUse > 0 || !l.watched) {
			// Of one that has no arrival left all numbers are settled, by others.
			if a := l.runs[0].arrivals; len(a) > 0 && a[0].sent < limit {
				names = append(names, l.name)
			}
		}
		l.mu.Unlock()
	}
	return names
}

func (m *Manager) auditLocks(ctx context.Context, names []string) {
	const page = 1000
	for len(names) > 0 && ctx.Err() == nil {
		part := names[:min(page, len(names))]
		names = names[len(part):]
		call, cancel := m.opContext()
		views, err := m.queue.Views(call, part)
		cancel()
		if err != nil {
			m.log().Warn("fairlock: audit", "error", err)
			return
		}
		found := make(map[string]bool, len(views))
		for _, v := range views {
			found[v.Name] = true
			m.notice(waiter.Notice{View: v, Origin: waiter.FromRecheck})
		}
		for _, name := range part {
			if !found[name] {
				m.notice(waiter.Notice{View: queue.View{Name: name}, Missing: true, Origin: waiter.FromRecheck})
			}
		}
	}
}

func (m *Manager) auditTickets(ctx context.Context) {
	mine := m.tickets.standing()
	session := m.Session()
	if len(mine) == 0 || session == "" {
		return
	}
	seen := map[queue.TicketID]bool{}
	for after := (queue.TicketID{}); ; {
		const page = 1000
		call, cancel := m.opContext()
		tickets, err := m.queue.TicketsOfSession(call, session, after, page)
		cancel()
		if err != nil || ctx.Err() != nil {
			return
		}
		if len(tickets) == 0 {
			break
		}
		for i := range tickets {
			after = tickets[i].ID
			seen[after] = true
			if !m.tickets.knows(after) {
				m.clearLeft(&tickets[i])
			}
		}
	}
	for _, a := range mine {
		if a.lease.ID() == session && !seen[a.id()] {
			m.tickets.restore(a)
		}
	}
}

// clearLeft ends a range of this session that nothing here stands behind any more: a write of which no reply ever came.
// Where its settling is on its way, this repeats it.
func (m *Manager) clearLeft(t *queue.Ticket) {
	ctx, cancel := m.opContext()
	defer cancel()
	_, err := m.queue.Settle(ctx, t.ID.Lock, []queue.Range{t.Range()}, t.Arrival)
	if err == nil {
		err = m.queue.DropTickets(ctx, []queue.TicketID{t.ID})
	}
	if err != nil {
		m.log().Warn("fairlock: audit", "lock", t.ID.Lock, "error", err)
	}
}
