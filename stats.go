package fairlock

import (
	"sync/atomic"

	"github.com/fairlock/fairlock/waiter"
)

// stats are the live counters of a manager.
type stats struct {
	grants, enqueues, settles, lost, requeued, ticketsPut, ticketsDropped atomic.Int64
	grantedBy                                                             [waiter.FromPoll + 1]atomic.Int64
	held, unobserved                                                      atomic.Int64
}

// Stats is what a manager has done since it was made. Fields only grow, but for Held, Waiting and Streaming, which are as of now.
type Stats struct {
	Held    int64 // locks that callers have, neither unlocked nor known to be lost
	Waiting int64 // calls that wait for a lock; those of TryLock do not

	Grants         int64 // locks granted, by Lock, TryLock and Do
	Lost           int64 // locks lost before they were unlocked
	Requeued       int64 // waiters that had to queue again, after the session ended or a ticket came too late
	Enqueues       int64 // arrival writes, of Lock and TryLock
	Settles        int64 // settle writes
	TicketsWritten int64
	TicketsDeleted int64

	// How grants came about that did not come with the arrival's own reply or from inside the process. GrantsByRecheck
	// should stay near 0: it counts waiters whom the change stream failed.
	GrantsByEvent, GrantsByOpening, GrantsByDoze, GrantsByRecheck, GrantsByPoll int64

	StreamsOpened int64
	StreamsFailed int64
	Events        int64 // change events received
	Reads         int64 // reads of lock documents on behalf of waiters
	Overslept     int64 // grants that came late, because the waiter had taken the queue for slower than it was
	Streaming     bool  // a change stream is open now

	// PassedOver counts reads of documents in fairlock's collections that are none of its own. One that stays is counted at each read.
	PassedOver int64

	SessionsEnded  int64 // sessions of dead processes that this one ended
	TicketsCleared int64 // tickets of ended sessions that this one cleared
	OrphansBuried  int64 // numbers without a ticket that this one cleared
	Looks          int64 // looks at those ahead in line
	Sweeps         int64

	Unobserved int64 // events that Config.Observer was too slow for
}

// Stats returns a snapshot. It makes no database call.
func (m *Manager) Stats() Stats {
	s, w, r := &m.stats, m.watcher.Counts(), m.reaper.Counts()
	return Stats{
		Held: s.held.Load(), Waiting: m.calls.Load(), Unobserved: s.unobserved.Load(),
		Grants: s.grants.Load(), Lost: s.lost.Load(), Requeued: s.requeued.Load(),
		Enqueues: s.enqueues.Load(), Settles: s.settles.Load(),
		TicketsWritten: s.ticketsPut.Load(), TicketsDeleted: s.ticketsDropped.Load(),
		GrantsByEvent:   s.grantedBy[waiter.FromEvent].Load(),
		GrantsByOpening: s.grantedBy[waiter.FromOpening].Load() + s.grantedBy[waiter.FromCatchUp].Load(),
		GrantsByDoze:    s.grantedBy[waiter.FromDoze].Load(),
		GrantsByRecheck: s.grantedBy[waiter.FromRecheck].Load(),
		GrantsByPoll:    s.grantedBy[waiter.FromPoll].Load(),
		StreamsOpened:   w.StreamsOpened.Load(), StreamsFailed: w.StreamsFailed.Load(),
		Events: w.Events.Load(), Reads: w.Reads.Load(), Streaming: m.watcher.Streaming(),
		Overslept:     w.Overslept.Load(),
		SessionsEnded: r.SessionsEnded.Load(), TicketsCleared: r.TicketsCleared.Load(),
		OrphansBuried: r.OrphansBuried.Load(), PassedOver: m.passed.count(), Looks: r.Looks.Load(), Sweeps: r.Sweeps.Load(),
	}
}
