package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock"
)

// lease is one place in line that becomes one hold. Its goroutine is run; see doc.go.
type lease struct {
	s      *Server
	key    leaseKey
	ask    ask
	ctx    context.Context // of the wait, and the order to run to end the hold
	cancel context.CancelFunc
	placed chan struct{} // closed when its call is in line, or was refused
	once   sync.Once     // of placed

	mu       sync.Mutex // guards all below
	state    state
	why      reason
	problem  *problem // of a place that was left
	lock     *fairlock.Lock
	token    int64         // set before held, and then not changed
	changed  chan struct{} // closed at the next transition, and made anew
	open     int           // connections that keep it alive
	streams  int           // event streams of it
	deadline time.Time     // when it ends unless it is heard of; does not count while open is not 0
	timer    *time.Timer   // of deadline; nil after the end
	promised time.Time     // until then the client may believe that it holds, by the answers that it was given
	stop     chan struct{} // closed when the client has stopped, or has to
	stopping sync.Once
}

// leaseKey is an id and whose it is.
type leaseKey struct {
	client string // its name; "" for those who are let in without a token
	id     string
}

func newLease(s *Server, key leaseKey, a ask) *lease {
	l := &lease{s: s, key: key, ask: a, placed: make(chan struct{}), stop: make(chan struct{}), state: waiting, changed: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(s.base)
	l.deadline = time.Now().Add(a.heartbeat)
	l.timer = time.AfterFunc(a.heartbeat, l.overdue)
	return l
}

func (l *lease) inLine() { l.once.Do(func() { close(l.placed) }) }

// moveLocked is every transition. The caller holds mu.
func (l *lease) moveLocked(to state, why reason) {
	if !slices.Contains(moves[l.state], to) {
		panic(fmt.Sprintf("bug: lease moves from %v to %v", l.state, to))
	}
	switch {
	case l.state == waiting && to == held:
		l.s.holds.Add(1)
		l.s.waits.Add(-1)
	case l.state == waiting:
		l.s.waits.Add(-1)
	case to.final():
		l.s.holds.Add(-1)
	}
	l.state, l.why = to, why
	close(l.changed)
	l.changed = make(chan struct{})
	if l.token != 0 {
		l.s.note(l.ask.name, l.token, to == held)
	}
	if to == releasing || to.final() {
		l.timer.Stop()
		l.cancel()
	}
	if to.final() {
		l.s.retire(l, ending{to, why})
	}
}

// leaveLocked ends a wait. The caller holds mu.
func (l *lease) leaveLocked(why reason, p *problem) {
	l.problem = p
	l.moveLocked(left, why)
}

// overdue runs when the deadline has passed, or seems to.
func (l *lease) overdue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open > 0 || l.state != waiting && l.state != held {
		return
	}
	if d := time.Until(l.deadline); d > 0 {
		l.timer.Reset(d)
		return
	}
	l.endLocked(notHeard)
}

// endLocked ends the wait or the hold without the client's doing. The caller holds mu.
func (l *lease) endLocked(why reason) {
	switch l.state {
	case waiting:
		p := refusal(410, "left", fmt.Sprintf("the place in line was given up: nothing was heard of the client for %v", l.ask.heartbeat))
		if why == isClosing {
			p = closing()
		}
		l.leaveLocked(why, p)
	case held:
		l.moveLocked(lost, why)
	}
}

// endFrom is endLocked of a lease in that state.
func (l *lease) endFrom(of state, why reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.judgeLocked()
	if l.state == of {
		l.endLocked(why)
	}
}

// heardLocked notes that the client was there at a time ago. The caller holds mu.
func (l *lease) heardLocked(ago time.Duration) {
	if l.state != waiting && l.state != held {
		return
	}
	if at := time.Now().Add(l.ask.heartbeat - ago); at.After(l.deadline) {
		l.deadline = at
	}
	l.timer.Reset(time.Until(l.deadline))
}

// heartbeat is heardLocked of now.
func (l *lease) heartbeat() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heardLocked(0)
}

// attach makes a connection keep the lease alive until detach.
func (l *lease) attach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
	l.heardLocked(0)
}

// detach ends attach. A connection that broke may have done so half a heartbeat time ago.
func (l *lease) detach(broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	ago := time.Duration(0)
	if broken {
		ago = l.ask.heartbeat / 2
	}
	l.heardLocked(ago)
}

// withdraw is the client's wish that the lease end.
func (l *lease) withdraw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.judgeLocked()
	switch l.state {
	case waiting:
		l.leaveLocked(withdrawn, refusal(410, "left", "the place in line was given up by DELETE"))
	case held:
		l.moveLocked(releasing, "")
	}
}

// judgeLocked asks the lock whether it is held, by the clock. The caller holds mu.
func (l *lease) judgeLocked() {
	if l.state == held {
		if err := l.lock.Err(); err != nil {
			l.moveLocked(lost, reasonOfLoss(err))
		}
	}
}

func reasonOfLoss(err error) reason {
	var e *fairlock.LostError
	if errors.As(err, &e) {
		switch e.Reason {
		case fairlock.LostLease:
			return lostLease
		case fairlock.LostTicket:
			return lostTicket
		case fairlock.LostSettled:
			return lostSettled
		case fairlock.LostMaxHold:
			return lostMaxHold
		case fairlock.LostForced:
			return lostForced
		case fairlock.LostClosed:
			return isClosing
		}
	}
	return lostSession
}

// leaseView is a lease as its client sees it.
type leaseView struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	Permits     int64  `json:"permits,omitempty"`
	Units       int64  `json:"units,omitempty"`
	State       string `json:"state"`
	Reason      reason `json:"reason,omitempty"`
	Detail      string `json:"detail,omitempty"` // of left
	Token       int64  `json:"token,omitempty"`
	LeftMs      int64  `json:"leftMs"` // 0 unless held
	HeartbeatMs int64  `json:"heartbeatMs"`
}

// look is the lease at this moment, and a channel that is closed when its state changes.
func (l *lease) look() (*leaseView, state, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.judgeLocked()
	return l.viewLocked(), l.state, l.changed
}

func (l *lease) viewLocked() *leaseView {
	v := &leaseView{
		ID: l.key.id, Name: l.ask.name, Kind: l.ask.kind, Permits: l.ask.permits, State: l.state.String(), Reason: l.why,
		Token: l.token, HeartbeatMs: l.ask.heartbeat.Milliseconds(),
	}
	if l.problem != nil {
		v.Detail = l.problem.Detail
	}
	if l.ask.kind == semaphore {
		v.Units = l.ask.units
	}
	if l.state == held {
		left := max(min(l.lock.Left(), l.untilLocked()), 0)
		v.LeftMs = left.Milliseconds()
		if until := time.Now().Add(left); until.After(l.promised) {
			l.promised = until
		}
	}
	return v
}

// untilLocked is how long the gateway keeps the hold without hearing of the client, less the time that it leaves it to stop. While a
// connection keeps the lease alive, the client has half a heartbeat time from its break. The caller holds mu.
func (l *lease) untilLocked() time.Duration {
	slack := l.ask.heartbeat / 10
	if l.open > 0 {
		return l.ask.heartbeat/2 - slack
	}
	return time.Until(l.deadline) - slack
}

// over is the answer to a request for a lease that is over.
func (l *lease) over() *problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case left:
		p := *l.problem
		p.Lease = l.viewLocked()
		return &p
	case lost:
		p := refusal(410, "lost", fmt.Sprintf("lock %q (token %d) is lost: %s", l.ask.name, l.token, l.why))
		p.Lease = l.viewLocked()
		return p
	}
	p := refusal(410, "released", fmt.Sprintf("lock %q (token %d) was released", l.ask.name, l.token))
	p.Lease = l.viewLocked()
	return p
}

// stops notes that the client has stopped, or was sent the event on which it must.
func (l *lease) stops() { l.stopping.Do(func() { close(l.stop) }) }

// believes is a timer that runs until the client believes no more that it holds, whatever has reached it.
func (l *lease) believes() *time.Timer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.NewTimer(time.Until(l.promised))
}

// stopped is the word of a client that has stopped after a loss: nobody needs to wait for it any longer.
func (l *lease) stopped() {
	l.stops()
	l.mu.Lock()
	lock := l.lock
	l.mu.Unlock()
	if lock != nil {
		_ = lock.Unlock(l.s.base) // at once: it is lost
	}
}
