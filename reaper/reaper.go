package reaper

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/queue"
)

// Config is what a reaper needs to know.
type Config struct {
	TTL, OpTimeout time.Duration
	Clock          clock.Clock
	Queue          queue.Store
	Sessions       Sessions
	Log            *slog.Logger
	// Targets returns the locks that this process waits for, at each call anew. It must not block.
	Targets func() []Target
	// Outages is a number that is another one after this process could not renew its own lease for a while, and another while that
	// lasts. Nobody may have been able to then: what was seen before is no evidence any more. nil: never.
	Outages func() int64
	// Sweep reports whether this process has the right to sweep, that is, holds the lock for it. It may take the time of
	// a database call. watch is then called with what stands in the way, so that a dead sweeper is noticed.
	Sweep func(ctx context.Context) (mine bool, watch []Target)
	// Reaped is called with what was cleared: a session, tickets of a lock, or numbers of one. It must not block, and can be called at the same
	// time. nil: nobody asks.
	Reaped func(kind string, n int64, lock, session string)
	Chance rand.Source // see package chance
}

// Target is a lock that this process waits for.
type Target struct {
	Name string
	// Below is the lowest number of this process; what stands before it is watched.
	Below int64
	// Ahead is about how many arrivals stand before it. Waiters far back look less often, so that all looks together grow
	// with the number of waiters and not with its square.
	Ahead int64
	// Moving is true while the head is known to leave again and again, so that no dead process can be there. What is known of
	// the lock is kept, and nobody looks.
	Moving bool
}

// Counts is what a reaper has done. Fields only grow.
type Counts struct {
	SessionsEnded, TicketsCleared, OrphansBuried, Looks, Sweeps atomic.Int64
}

// Reaper watches those ahead in line and clears the dead. Everything but Counts belongs to the goroutine of Run.
type Reaper struct {
	cfg       Config
	counts    Counts
	seen      *sightings
	outages   int64                    // Config.Outages when seen.beats was used last
	due       map[string]clock.Instant // next look at each target
	moved     map[string]queue.View    // of busy locks at the last sweep, to pass over those that move
	collected clock.Instant            // last collect; 0: none yet
	stood     map[string]standing      // of targets, to pass over the tickets of those that have not moved
}

// standing is what a look at a lock found, when all that stood before its target had tickets. It is good for a few looks
// as long as the lock document has not moved: what tickets say does not change.
type standing struct {
	settled, hi int64
	done        int
	looks       int
	owners      map[string][]queue.Ticket
}

// mostStood is for how many looks tickets are not read again. A ticket that somebody deleted is missed that long.
const mostStood = 4

// New returns a reaper that does nothing until Run.
func New(cfg Config) *Reaper {
	return &Reaper{
		cfg: cfg, seen: newSightings(),
		due: map[string]clock.Instant{}, moved: map[string]queue.View{}, stood: map[string]standing{},
	}
}

// Counts returns the live counters.
func (r *Reaper) Counts() *Counts { return &r.counts }

// cleared counts and tells what was cleared.
func (r *Reaper) cleared(count *atomic.Int64, kind string, n int64, lock, session string) {
	count.Add(n)
	if r.cfg.Reaped != nil {
		r.cfg.Reaped(kind, n, lock, session)
	}
}

// tick is the time between two looks of a waiter near the head. A death is noticed one ttl after the look that first
// saw the last beat, so tick is what it costs above ttl.
func (r *Reaper) tick() time.Duration { return max(r.cfg.TTL/10, 200*time.Millisecond) }

// Run works until ctx ends. It returns when the last call has returned.
func (r *Reaper) Run(ctx context.Context) {
	timer := time.NewTimer(r.tick())
	defer timer.Stop()
	sweepAt := r.cfg.Clock.Now().Add(r.jitter(r.cfg.TTL))
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		next := r.lookAtTargets(ctx)
		if now := r.cfg.Clock.Now(); now >= sweepAt {
			r.sweep(ctx)
			sweepAt = now.Add(r.jitter(r.cfg.TTL / 2))
		}
		r.seen.forgetBeats(r.cfg.Clock.Now(), 10*r.cfg.TTL)
		timer.Reset(min(next, max(sweepAt.Sub(r.cfg.Clock.Now()), 0)))
	}
}

// beat is sightings.beat, but for what was seen before an outage. After one that is nearly as long as a lease, or longer, the first to look
// would otherwise end everybody who has not got round to renewing yet. Those who did die in it are seen anew, and keep the queue for a
// lease from then.
func (r *Reaper) beat(id string, beat int64) time.Duration {
	if r.cfg.Outages != nil {
		if n := r.cfg.Outages(); n != r.outages {
			r.outages = n
			clear(r.seen.beats)
		}
	}
	return r.seen.beat(id, beat, r.cfg.Clock.Now())
}

// lookAtTargets looks at those that are due and returns the time to the next walk. With no targets it makes no call: a
// process that only holds, or idles, sends nothing here.
func (r *Reaper) lookAtTargets(ctx context.Context) time.Duration {
	next := r.tick()
	live := map[string]bool{}
	for _, t := range r.cfg.Targets() {
		live[t.Name] = true
		if t.Moving {
			continue
		}
		now := r.cfg.Clock.Now()
		period := min(r.tick()*time.Duration(1+t.Ahead/8), max(r.cfg.TTL, r.tick()))
		if due := r.due[t.Name]; due > now { // a new one is due at once
			next = min(next, due.Sub(now))
			continue
		}
		soon := r.look(ctx, t, true)
		if ctx.Err() != nil {
			return next
		}
		if soon > 0 {
			period = min(period, soon)
		}
		r.due[t.Name] = r.cfg.Clock.Now().Add(period)
		next = min(next, period)
	}
	for name := range r.due {
		if !live[name] {
			delete(r.due, name)
			delete(r.stood, name)
			r.seen.forgetGaps(name)
		}
	}
	return max(next, time.Millisecond)
}

// mostTickets bounds one look. What lies behind is looked at when the front is clear.
const mostTickets = 2000

// look examines what stands before t and clears what is dead. It returns the time after which something that is
// watched now will be ripe, or 0. again says that the same target will be looked at again soon. Failures are logged and left to the next look: all evidence is kept.
func (r *Reaper) look(ctx context.Context, t Target, again bool) time.Duration {
	r.counts.Looks.Add(1)
	soon, err := r.examine(ctx, t, again)
	if err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn("fairlock: reaper", "lock", t.Name, "error", err)
	}
	return soon
}

func (r *Reaper) examine(ctx context.Context, t Target, again bool) (time.Duration, error) {
	call, cancel := context.WithTimeout(ctx, r.cfg.OpTimeout)
	defer cancel()
	v, found, err := r.cfg.Queue.View(call, t.Name)
	if err != nil || !found || v.Settled >= min(t.Below-1, v.Issued) {
		return 0, err
	}
	hi := min(t.Below-1, v.Issued)
	absence := max(v.Grace(), r.cfg.TTL)
	if st, ok := r.stood[t.Name]; ok && st.settled == v.Settled && st.hi == hi && st.done == len(v.Done) && st.looks < mostStood {
		st.looks++
		r.stood[t.Name] = st
		return r.judgeOwners(call, t.Name, st.owners, absence)
	}
	delete(r.stood, t.Name)
	tickets, err := r.cfg.Queue.Tickets(call, t.Name, hi, mostTickets)
	if err != nil {
		return 0, err
	}
	if len(tickets) == mostTickets {
		hi = tickets[mostTickets-1].Hi
	}
	// The tickets were read after the lock document. A number that was settled, and its ticket deleted, between the two
	// reads looks like a gap now and is gone from v at the next look, long before a grace has passed.
	now := r.cfg.Clock.Now()
	f := sortTickets(&v, tickets)
	var undropped error // stands in nobody's way
	if len(f.garbage) > 0 {
		undropped = r.cfg.Queue.DropTickets(call, f.garbage)
	}
	soon, err := r.judgeOwners(call, t.Name, f.owners, absence)
	if err != nil {
		return soon, errors.Join(undropped, err)
	}
	gaps := queue.Subtract(queue.Range{Lo: v.Settled + 1, Hi: hi}, f.covered)
	// A tombstone is written after a full grace and stands for ever, so what it covers is ripe already.
	ripe, nextGap := r.seen.gap(t.Name, now, v.Now, gaps, max(v.Grace(), time.Millisecond))
	ripe = append(ripe, f.buried...)
	if nextGap > 0 && (soon == 0 || nextGap < soon) {
		soon = nextGap
	}
	if len(ripe) > 0 {
		return soon, errors.Join(undropped, r.bury(call, t.Name, atMost(queue.Merge(ripe), mostBuried)))
	}
	if again && len(gaps) == 0 && hi == min(t.Below-1, v.Issued) {
		r.stood[t.Name] = standing{settled: v.Settled, hi: hi, done: len(v.Done), owners: f.owners}
	}
	return soon, undropped
}

// found is the tickets of a lock by what they are.
type found struct {
	garbage []queue.TicketID          // of settled ranges
	buried  []queue.Range             // under tombstones, not settled
	covered []queue.Range             // settled out of order, or under a ticket; sorted
	owners  map[string][]queue.Ticket // of unsettled ranges, by session
}

func sortTickets(v *queue.View, tickets []queue.Ticket) found {
	f := found{owners: map[string][]queue.Ticket{}, covered: slices.Clone(v.Done)}
	settled := append([]queue.Range{{Lo: math.MinInt64, Hi: v.Settled}}, v.Done...)
	for _, t := range tickets {
		switch {
		case len(queue.Subtract(t.Range(), settled)) == 0:
			f.garbage = append(f.garbage, t.ID)
		case t.Tomb:
			f.buried = append(f.buried, t.Range())
		default:
			f.owners[t.Session] = append(f.owners[t.Session], t)
			f.covered = append(f.covered, t.Range())
		}
	}
	slices.SortFunc(f.covered, func(a, b queue.Range) int { return cmp.Compare(a.Lo, b.Lo) })
	return f
}

// mostBuried bounds the tombstones of one look, which has the time of one call: a lock document that somebody has spoiled can name
// numbers without end. The rest stays ripe for the next look.
const mostBuried = 20_000

// atMost is the first n numbers of ranges.
func atMost(ranges []queue.Range, n int64) []queue.Range {
	for i, r := range ranges {
		if r.Units() >= n {
			return append(ranges[:i:i], queue.Range{Lo: r.Lo, Hi: r.Lo + n - 1})
		}
		n -= r.Units()
	}
	return ranges
}

// bury settles the numbers of gaps for which tombstones stand, as one run, and takes the tombstones away.
func (r *Reaper) bury(ctx context.Context, name string, gaps []queue.Range) error {
	dead, err := r.cfg.Queue.Bury(ctx, name, gaps)
	if err != nil || len(dead) == 0 {
		return err
	}
	if err := r.settle(ctx, name, dead, 0); err != nil {
		return err
	}
	var ids []queue.TicketID
	var n int64
	for _, d := range dead {
		n += d.Units()
		for lo := d.Lo; lo <= d.Hi; lo++ {
			ids = append(ids, queue.TicketID{Lock: name, Lo: lo})
		}
	}
	r.cleared(&r.counts.OrphansBuried, "number", n, name, "")
	r.cfg.Log.Info("fairlock: cleared numbers that nobody came for", "lock", name, "numbers", n)
	return r.cfg.Queue.DropTickets(ctx, ids)
}

// mostRanges bounds the ranges in one settle.
const mostRanges = 500

func (r *Reaper) settle(ctx context.Context, name string, ranges []queue.Range, arrival int64) error {
	for chunk := range slices.Chunk(queue.Merge(ranges), mostRanges) {
		if _, err := r.cfg.Queue.Settle(ctx, name, chunk, arrival); err != nil {
			return err
		}
	}
	return nil
}

// judgeOwners looks at the sessions behind the tickets of one lock, ends those whose lease has been seen to run
// out, and clears the tickets of ended ones. It returns the time after which the next lease will have run out.
func (r *Reaper) judgeOwners(ctx context.Context, name string, owners map[string][]queue.Ticket, absence time.Duration) (time.Duration, error) {
	if len(owners) == 0 {
		return 0, nil
	}
	ids := make([]string, 0, len(owners))
	for id := range owners {
		ids = append(ids, id)
	}
	sessions, err := r.cfg.Sessions.Get(ctx, ids)
	if err != nil {
		return 0, err
	}
	found := map[string]bool{}
	var soon time.Duration
	var dead []queue.Ticket
	var cleared []string
	for i := range sessions {
		s := &sessions[i]
		found[s.ID] = true
		over, left, err := r.judge(ctx, s)
		if err != nil {
			return soon, err
		}
		if over {
			dead = append(dead, owners[s.ID]...)
			cleared = append(cleared, s.ID)
		} else if soon == 0 || left < soon {
			soon = left
		}
	}
	for _, id := range ids {
		if found[id] {
			continue
		}
		over, left, err := r.judgeAbsent(ctx, id, absence)
		if err != nil {
			return soon, err
		}
		if over {
			dead = append(dead, owners[id]...)
			cleared = append(cleared, id)
		} else if soon == 0 || left < soon {
			soon = left
		}
	}
	if len(dead) == 0 {
		return soon, nil
	}
	// This lock first: somebody waits for it.
	if err := r.clear(ctx, name, dead); err != nil {
		return soon, err
	}
	return soon, r.clearSessions(ctx, cleared)
}

// judge says whether a session is over, after ending it if the evidence is there: its beat has stood for its whole ttl
// before the eyes of this process, and (in End) its lease is over by the server's clock and its beat is still the same.
// The owner's trust is then over too, since it ended ttl - margin after it sent that beat, and it was sent before it was
// seen here.
func (r *Reaper) judge(ctx context.Context, s *Session) (over bool, left time.Duration, err error) {
	if s.Ended {
		return true, 0, nil
	}
	if left = s.TTL() - r.beat(s.ID, s.Beat); left > 0 {
		return false, left, nil
	}
	over, err = r.cfg.Sessions.End(ctx, s.ID, s.Beat)
	if over {
		r.cleared(&r.counts.SessionsEnded, "session", 1, "", s.ID)
		r.cfg.Log.Warn("fairlock: ended the session of a process that stopped renewing it",
			"session", s.ID, "host", s.Host, "pid", s.PID, "label", s.Label)
	}
	return over, r.tick(), err
}

// judgeAbsent is judge for a session without a document (the collection was dropped, or its owner deleted it and a late
// ticket came after). Absence proves nothing, so an ended session is written in its place; from then on the owner, if
// there is one, cannot renew.
func (r *Reaper) judgeAbsent(ctx context.Context, id string, wait time.Duration) (over bool, left time.Duration, err error) {
	if left = wait - r.beat(id, absent); left > 0 {
		return false, left, nil
	}
	if err := r.cfg.Sessions.Bury(ctx, id); err != nil {
		return false, r.tick(), err
	}
	s, err := r.cfg.Sessions.Get(ctx, []string{id})
	return err == nil && len(s) == 1 && s[0].Ended, r.tick(), err
}

// clear settles the ranges of tickets of one lock whose sessions have ended, all in one write, and then deletes the
// tickets. In that order: a crash between leaves tickets of settled ranges, which are garbage, and never unsettled
// numbers without a ticket.
func (r *Reaper) clear(ctx context.Context, name string, tickets []queue.Ticket) error {
	var ranges []queue.Range
	var ids []queue.TicketID
	var arrival int64
	for _, t := range tickets {
		ranges = append(ranges, t.Range())
		ids = append(ids, t.ID)
		arrival = max(arrival, t.Arrival)
	}
	if err := r.settle(ctx, name, ranges, arrival); err != nil {
		return err
	}
	r.cleared(&r.counts.TicketsCleared, "ticket", int64(len(ids)), name, "")
	return r.cfg.Queue.DropTickets(ctx, ids)
}

// clearSessions clears all tickets of ended sessions, whatever lock they are of. A lock whose document is not one keeps its tickets, and
// nobody else's.
func (r *Reaper) clearSessions(ctx context.Context, ids []string) error {
	var errs []error
	for _, id := range ids {
		switch err := r.clearSession(ctx, id); {
		case err == nil:
		case queue.Permanent(err):
			errs = append(errs, err)
		default:
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

func (r *Reaper) clearSession(ctx context.Context, id string) error {
	var mu sync.Mutex
	var errs []error // the first few, guarded by mu
	failed := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if len(errs) < 4 {
			errs = append(errs, err)
		}
	}
	for after := (queue.TicketID{}); ; {
		tickets, err := r.cfg.Queue.TicketsOfSession(ctx, id, after, 1000)
		if err != nil {
			return err
		}
		if len(tickets) == 0 {
			break
		}
		after = tickets[len(tickets)-1].ID
		byLock := map[string][]queue.Ticket{}
		for _, t := range tickets {
			byLock[t.ID.Lock] = append(byLock[t.ID.Lock], t)
		}
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(8) // grouped majority writes cost a sixth of lone ones, and the user's pool has other work
		for name, of := range byLock {
			g.Go(func() error {
				err := r.clear(gctx, name, of)
				if !queue.Permanent(err) {
					return err
				}
				failed(err)
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return r.cfg.Sessions.MarkCleared(ctx, id)
}
