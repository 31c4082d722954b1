package reaper

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/chance"
	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/queue"
)

// LeaseState is where a lease is in its life.
type LeaseState uint8

const (
	// Live: trusted until an instant that renewals move on.
	Live LeaseState = iota
	// Lapsed: that instant passed without a renewal. A late one makes it Live again: waiters keep their place, what
	// was held is lost all the same.
	Lapsed
	// Ended: the session is over for ever.
	Ended
)

func (s LeaseState) String() string { return [...]string{"live", "lapsed", "ended"}[s] }

// leaseTransitions is the table of all moves.
var leaseTransitions = map[LeaseState][]LeaseState{
	Live:   {Lapsed, Ended},
	Lapsed: {Live, Ended},
	Ended:  {},
}

// LeaseConfig is what a lease needs to know.
type LeaseConfig struct {
	TTL, Margin, OpTimeout time.Duration
	// Delay is the part of TTL and Margin in which nobody trusts the lease any more, and nobody else may be admitted yet.
	Delay  time.Duration
	Clock  clock.Clock
	Store  Sessions
	Log    *slog.Logger
	Chance rand.Source // see package chance
	// Changed is called from the lease's goroutine after each change of state. It must not block.
	Changed func(*Lease, LeaseState)
	// Forced is called from the lease's goroutine with what renewals brought. It must not block. nil: nobody asks.
	Forced func([]Forced)
	// Resumed is called from the lease's goroutine when a renewal is acknowledged that was Late, before it counts. It must not block. nil: nobody asks.
	Resumed func()
	// Renewed is called from the lease's goroutine after each attempt to renew, but for one that Stop has ended. It must not block. nil: nobody asks.
	Renewed func(took time.Duration, err error)
}

// Lease renews one session and knows whether it can be trusted. Its goroutine starts in Begin and ends at Stop
// or when the session has ended; Stop waits for it.
type Lease struct {
	cfg LeaseConfig
	id  string

	until  atomic.Int64 // clock.Instant up to which the session is trusted; grows, and becomes MinInt64 at the end
	lapses atomic.Int64 // how often trust ended so far; incremented before until can grow again

	mu      sync.Mutex // guards state and refused, and orders the writes of until and lapses
	state   LeaseState
	refused error // the last renewal's, if repeating cannot help

	cancel context.CancelFunc // ends the goroutine and its call
	done   chan struct{}      // closed when the goroutine is gone
}

// Begin writes the session and starts to renew it. The error is the store's; nothing then runs, and a session that was
// written after all ends by its lease.
func Begin(ctx context.Context, cfg LeaseConfig, s Session) (*Lease, error) {
	l := &Lease{cfg: cfg, id: s.ID, done: make(chan struct{})}
	s.TTLMS = cfg.TTL.Milliseconds()
	sent := cfg.Clock.Now()
	if err := cfg.Store.Begin(ctx, s); err != nil {
		return nil, err
	}
	l.until.Store(int64(l.trustedFrom(sent)))
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	go l.run(run, sent)
	return l, nil
}

// ID is the session's id.
func (l *Lease) ID() string { return l.id }

// trustedFrom is where trust ends when a renewal that was sent at sent is acknowledged. The time of sending counts:
// the server can have started the lease at any moment after it.
func (l *Lease) trustedFrom(sent clock.Instant) clock.Instant {
	return sent.Add(l.cfg.TTL - l.cfg.Margin)
}

// Until is the instant up to which the session is trusted as things stand.
func (l *Lease) Until() clock.Instant { return clock.Instant(l.until.Load()) }

// Late reports whether less than a third of the trust that a renewal gives is left. Renewals are due when nearly two thirds are, so the
// database has confirmed none for as long as it takes that an owner who was less lucky with its last one sees its lease run out.
func (l *Lease) Late() bool {
	return l.Until() < l.cfg.Clock.Now().Add((l.cfg.TTL-l.cfg.Margin)/3)
}

// Term is the number of times that trust has ended. Whoever holds something under the lease keeps the Term of that moment and
// gives it to Trusted.
func (l *Lease) Term() int64 { return l.lapses.Load() }

// Trusted reports whether the session has been trusted without a break since term was read, by the clock now. until
// is read first: a renewal after a lapse counts the lapse before it moves until, so that whoever sees the new until
// sees the lapse too.
func (l *Lease) Trusted(term int64) bool {
	until := l.Until()
	return l.cfg.Clock.Now() < until && l.lapses.Load() == term
}

// State is the state as last noted. Trusted is the proof; this is for people.
func (l *Lease) State() LeaseState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Refused is why the last renewal was refused, if it was, for good: a privilege is missing. It is tried again all the same.
func (l *Lease) Refused() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

func (l *Lease) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = nil
	if queue.Permanent(err) {
		l.refused = err
	}
}

// Stop ends renewal and waits. The session stays in the database until its lease is over or Remove is called.
func (l *Lease) Stop() {
	l.cancel()
	<-l.done
}

type renewal struct {
	number int // in the order of sending: clocks can stand
	sent   clock.Instant
	took   time.Duration
	forced []Forced
	err    error
}

// mostRenewals is how many renewals of a lease are on their way at most.
const mostRenewals = 4

// run sends a renewal every third of what is trusted, and notes a lapse when it happens even while a renewal is on its way. One that
// is not answered soon is not given up, and another is sent beside it: a call that went to a primary which will never answer takes
// the whole of its time-out, and the next primary may be there all the while. Whichever is acknowledged counts from its own sending,
// so their order does not matter.
func (l *Lease) run(ctx context.Context, lastSent clock.Instant) {
	interval := min((l.cfg.TTL-l.cfg.Delay)/3, (l.cfg.TTL-l.cfg.Margin)/2)
	beside := min(l.cfg.OpTimeout, interval) / 2
	replies := make(chan renewal, mostRenewals) // so that no sender ever blocks
	flying, last, acked := 0, 0, 0              // how many are on their way; the numbers of the newest, and of the newest that was acknowledged
	defer close(l.done)
	defer func() {
		l.cancel()
		for ; flying > 0; flying-- {
			<-replies
		}
	}()
	renew := time.NewTimer(interval)
	lapse := time.NewTimer(l.Until().Sub(lastSent))
	defer renew.Stop()
	defer lapse.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
			if flying == mostRenewals {
				continue // the next reply, which comes by the time-out of a call, sets the timer
			}
			flying++
			last++
			r := renewal{number: last, sent: l.cfg.Clock.Now()}
			go func() {
				call, cancel := context.WithTimeout(ctx, min(l.cfg.OpTimeout, l.cfg.TTL))
				defer cancel()
				r.forced, r.err = l.cfg.Store.Renew(call, l.id, l.cfg.TTL)
				r.took = l.cfg.Clock.Now().Sub(r.sent)
				replies <- r
			}()
			renew.Reset(beside)
		case <-lapse.C:
			if left := l.Until().Sub(l.cfg.Clock.Now()); left > 0 {
				lapse.Reset(left)
			} else {
				l.noteLapse()
			}
		case r := <-replies:
			flying--
			if l.cfg.Renewed != nil && (r.err == nil || ctx.Err() == nil) {
				l.cfg.Renewed(r.took, r.err)
			}
			if len(r.forced) > 0 && l.cfg.Forced != nil {
				l.cfg.Forced(r.forced)
			}
			switch {
			case errors.Is(r.err, ErrEnded): // for ever, whatever was sent after it
				l.end()
				return
			case r.number < acked: // one that was sent later has been acknowledged before: there is nothing to be done for this one
			case r.err == nil:
				acked = r.number
				l.note(nil)
				l.extend(r.sent)
				now := l.cfg.Clock.Now()
				renew.Reset(max(interval-now.Sub(r.sent), 0))
				lapse.Reset(max(l.Until().Sub(now), 0))
			case ctx.Err() == nil:
				l.note(r.err)
				if l.State() == Lapsed && l.Refused() != nil {
					l.cfg.Changed(l, Lapsed) // again: now it is known that those who wait would do so in vain
				}
				l.cfg.Log.Warn("fairlock: session not renewed", "session", l.id, "error", r.err)
				// The call has had its time; the pause only keeps an immediate refusal from making a loop.
				renew.Reset(interval/8 + chance.Upto(l.cfg.Chance, interval/8))
			}
		}
	}
}

// extend, noteLapse and end run in the lease's goroutine only.
func (l *Lease) extend(sent clock.Instant) {
	if l.cfg.Resumed != nil && l.Late() {
		l.cfg.Resumed()
	}
	if l.cfg.Clock.Now() >= l.Until() {
		// The process slept over its lease and the reply came before the timer: the break must be counted before
		// until moves on.
		l.noteLapse()
	}
	l.mu.Lock()
	was := l.Until()
	l.until.Store(max(int64(was), int64(l.trustedFrom(sent))))
	// Between the check and the store the old end may have passed: no lapse, since the reply was here in time, but a
	// grant may have been refused in that moment, and is to be tried again.
	again := l.cfg.Clock.Now() >= was
	if l.state == Lapsed && l.cfg.Clock.Now() < l.Until() {
		l.moveLocked(Live)
		again = true
	}
	again = again && l.state == Live
	l.mu.Unlock()
	if again {
		l.cfg.Changed(l, Live)
	}
}

func (l *Lease) noteLapse() {
	l.mu.Lock()
	if l.state != Live {
		l.mu.Unlock()
		return
	}
	l.lapses.Add(1)
	l.moveLocked(Lapsed)
	l.mu.Unlock()
	l.cfg.Log.Warn("fairlock: lease not renewed in time, all that was held is lost", "session", l.id)
	l.cfg.Changed(l, Lapsed)
}

func (l *Lease) end() {
	l.mu.Lock()
	l.lapses.Add(1)
	l.until.Store(math.MinInt64)
	l.moveLocked(Ended)
	l.mu.Unlock()
	l.cfg.Log.Warn("fairlock: session was ended by another process", "session", l.id)
	l.cfg.Changed(l, Ended)
}

// moveLocked changes the state. The caller holds mu.
func (l *Lease) moveLocked(to LeaseState) {
	for _, allowed := range leaseTransitions[l.state] {
		if allowed == to {
			l.state = to
			return
		}
	}
	panic("bug: lease cannot go from " + l.state.String() + " to " + to.String())
}
