package fairlock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/queue"
)

// ticketState is where an arrival's ticket is. The keeper's mutex guards it.
type ticketState uint8

const (
	noTicket ticketState = iota // not due yet
	writing                     // a write is on its way or being repeated
	standing                    // acknowledged in time
	failed                      // not acknowledged in time, or a tombstone stands there
	finished                    // the numbers are settled
)

// ticket is the arrival's side of its ticket document.
type ticket struct {
	state  ticketState
	ok     atomic.Bool // state is standing; read by whoever judges trust
	marked int64       // passed as last written
}

// id is the id of the arrival's ticket.
func (a *arrival) id() queue.TicketID { return queue.TicketID{Lock: a.line.name, Lo: a.Lo} }

// document is the arrival's ticket as it is written.
func (a *arrival) document() queue.Ticket {
	return queue.Ticket{
		ID: a.id(), Hi: a.Hi, Session: a.lease.ID(), Arrival: a.index, Weight: a.weight, Labels: a.labels,
	}
}

// trusted reports whether the numbers can be trusted as far as the ticket goes, at now: it was acknowledged in time, or
// the time in which no reaper can act without one is not over.
func (a *arrival) trusted(now clock.Instant) bool { return a.ticket.ok.Load() || now < a.deadline() }

// deadline is when trust without a ticket ends. A reaper acts on a missing ticket when it has watched the
// number for a grace, which is TTL, and it cannot have seen it before the enqueue was sent.
func (a *arrival) deadline() clock.Instant {
	return a.sent.Add(a.line.m.cfg.TTL - a.line.m.cfg.Margin)
}

// keeper writes the tickets of arrivals that last longer than the delay, off the path of grants. One goroutine, run,
// looks at what is due; each write has one of its own.
type keeper struct {
	m       *Manager
	writers *semaphore.Weighted // bounds the writes at a time
	wake    chan struct{}       // capacity 1: the list was empty and is not any more

	mu      sync.Mutex                  // guards all below, and the state of every ticket
	young   []*arrival                  // not due, in about the order of sent
	late    []*arrival                  // were due, and their turn was near; in about the order of sent
	open    map[queue.TicketID]*arrival // whose ticket may be in the database: from writing to finished
	marking bool                        // a goroutine of mark's is at work
}

func newKeeper(m *Manager) *keeper {
	return &keeper{m: m, writers: semaphore.NewWeighted(32), wake: make(chan struct{}, 1), open: map[queue.TicketID]*arrival{}}
}

// watch takes charge of a new arrival.
func (k *keeper) watch(a *arrival) {
	k.mu.Lock()
	k.young = append(k.young, a)
	first := len(k.young) == 1
	k.mu.Unlock()
	if first {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// passedPause is how often a ticket is told how far its owner has got inside its process.
const passedPause = time.Second

// run works until ctx ends.
func (k *keeper) run(ctx context.Context) {
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	marks := time.NewTicker(passedPause)
	defer marks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		case <-k.wake:
		case <-marks.C:
			for _, l := range k.m.allLines() {
				l.trim()
			}
			k.mark()
			continue
		}
		if next, any := k.start(); any {
			due.Reset(next)
		}
	}
}

// start begins the writes that are due and returns the time to the next.
func (k *keeper) start() (next time.Duration, any bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delay, now := k.m.cfg.TicketDelay, k.m.clock.Now()
	due := func(list []*arrival, delay time.Duration, near func(*arrival) bool) []*arrival {
		left := list[:0]
		// All are looked at: they came in the order of replies, which is not quite that in which they were sent.
		for _, a := range list {
			if a.ticket.state != noTicket {
				continue
			}
			wait := a.sent.Add(delay).Sub(now)
			switch {
			case wait > 0:
				left = append(left, a)
				if !any || wait < next {
					next, any = wait, true
				}
			case near(a):
				k.late = append(k.late, a)
			default:
				a.ticket.state = writing
				k.open[a.id()] = a
				k.m.spawn(func() { k.write(a) })
			}
		}
		clear(list[len(left):])
		if len(left) == 0 {
			return nil
		}
		return left
	}
	// Half of the TTL is left for the write at the least.
	late := min(3*delay, k.m.cfg.TTL/2)
	// In a queue that moves fast a ticket would often be deleted right after it was written, at the cost of two writes.
	k.young = due(k.young, delay, func(a *arrival) bool {
		return now < a.sent.Add(late) && k.m.watcher.Soon(a.line.name, 2*delay)
	})
	k.late = due(k.late, late, func(*arrival) bool { return false })
	return next, any
}

// write writes the ticket until it is acknowledged, or it is too late for an acknowledgement to be believed: by
// then a reaper may have buried the number, settled it, and taken its tombstone away again.
func (k *keeper) write(a *arrival) {
	err := k.put(a)
	k.mu.Lock()
	gone := a.ticket.state == finished
	switch {
	case gone:
	case err == nil:
		a.ticket.state = standing
		a.ticket.ok.Store(true)
	default:
		a.ticket.state = failed
	}
	k.mu.Unlock()
	switch {
	case gone:
		k.drop([]queue.TicketID{a.id()})
	case err == nil:
		// A grant may have been refused in the moment between the deadline and this acknowledgement.
		a.line.mu.Lock()
		a.line.admitLocked()
		a.line.mu.Unlock()
	default:
		k.m.log().Warn("fairlock: no ticket in time, the numbers are void", "lock", a.line.name, "error", err)
		a.line.ticketFailed(a)
	}
}

var errLateTicket = errors.New("fairlock: ticket not acknowledged in time")

func (k *keeper) put(a *arrival) error {
	t := a.document()
	for last := error(nil); ; {
		now := k.m.clock.Now()
		left := a.deadline().Sub(now)
		if left <= 0 {
			return errors.Join(errLateTicket, last)
		}
		ctx, cancel := context.WithTimeout(k.m.opBase, min(left, k.m.cfg.OpTimeout))
		err := k.writers.Acquire(ctx, 1)
		if err == nil {
			err = k.m.queue.PutTicket(ctx, t, k.m.clock.Now().Sub(a.sent))
			k.writers.Release(1)
			k.m.stats.ticketsPut.Add(1)
		}
		cancel()
		switch {
		case err == nil && k.m.clock.Now() < a.deadline():
			return nil
		case errors.Is(err, queue.ErrTombstone), k.isFinished(a):
			return err
		}
		last = err
		pause := retryPause
		if queue.Permanent(err) {
			// Those who wait are told. Those who hold go on as long as they can without a ticket.
			pause = mostRetryPause
			a.line.refuse(func(c *claim) bool { return c.from == a }, err)
		}
		if !k.m.pause(pause) {
			return errors.Join(ErrClosed, last)
		}
	}
}

func (k *keeper) isFinished(a *arrival) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return a.ticket.state == finished
}

// finish ends the tickets of arrivals whose numbers are all settled. One that is being written is deleted by its writer.
func (k *keeper) finish(arrivals []*arrival) {
	var ids []queue.TicketID
	k.mu.Lock()
	for _, a := range arrivals {
		if a.ticket.state == standing || a.ticket.state == failed {
			ids = append(ids, a.id())
		}
		a.ticket.state = finished
		delete(k.open, a.id())
	}
	k.mu.Unlock()
	k.drop(ids)
}

// drop deletes tickets of settled numbers. If it cannot, they are garbage that any reaper deletes.
func (k *keeper) drop(ids []queue.TicketID) {
	if len(ids) == 0 {
		return
	}
	for {
		ctx, cancel := k.m.opContext()
		err := k.m.queue.DropTickets(ctx, ids)
		cancel()
		if err == nil {
			k.m.stats.ticketsDropped.Add(int64(len(ids)))
			return
		}
		k.m.log().Warn("fairlock: delete tickets", "error", err)
		if queue.Permanent(err) || !k.m.pause(retryPause) {
			return
		}
	}
}

// mark tells the tickets of runs that pass the lock on inside this process how far they are, for people. The calls have a
// goroutine of their own: tickets that are due must not wait for them.
func (k *keeper) mark() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.marking {
		return
	}
	var behind []*arrival
	for _, a := range k.open {
		if passed := a.passed.Load(); a.ticket.state == standing && passed > a.ticket.marked {
			a.ticket.marked = passed
			behind = append(behind, a)
		}
	}
	if len(behind) == 0 {
		return
	}
	k.marking = true
	k.m.spawn(func() {
		for _, a := range behind {
			ctx, cancel := k.m.opContext()
			err := k.m.queue.MarkPassed(ctx, a.id(), a.lease.ID(), a.passed.Load())
			cancel()
			if err != nil {
				break // the next mark says more
			}
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.marking = false
	})
}

// standing returns the arrivals whose tickets should stand in the database.
func (k *keeper) standing() []*arrival {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*arrival
	for _, a := range k.open {
		if a.ticket.state == standing {
			all = append(all, a)
		}
	}
	return all
}

// knows reports whether this process stands behind the ticket, or has not finished with it.
func (k *keeper) knows(id queue.TicketID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open[id] != nil
}

// restore writes a ticket again that was seen to be missing (its collection was dropped, or somebody deleted it). The write
// is the proof in either case: the read may have been old.
func (k *keeper) restore(a *arrival) {
	ctx, cancel := k.m.opContext()
	defer cancel()
	err := k.m.queue.PutTicket(ctx, a.document(), k.m.clock.Now().Sub(a.sent))
	switch {
	case errors.Is(err, queue.ErrTombstone):
		k.mu.Lock()
		lost := a.ticket.state == standing
		if lost {
			a.ticket.state = failed
			a.ticket.ok.Store(false)
		}
		k.mu.Unlock()
		if lost {
			a.line.ticketFailed(a)
		}
	case err == nil && k.isFinished(a):
		// It was settled and its ticket deleted while this write was on its way.
		k.drop([]queue.TicketID{a.id()})
	}
}
