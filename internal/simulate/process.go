package simulate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/history"
	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/internal/parts"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/waiter"
)

// errDead is what is left of a process gets for whatever it asks: nothing of it reaches the store.
var errDead = errors.New("simulate: the process is dead")

// process is a manager with its own connection and clock, from its start to its death or Close.
type process struct {
	w      *world
	id     int
	slot   int
	delay  time.Duration // its lock-delay
	m      *fairlock.Manager
	clk    *memstore.Clock
	client *memstore.Client
	gone   chan struct{} // closed when it dies

	mu      sync.Mutex // guards all below
	dead    bool
	closing bool          // Close was called, or is about to be
	awake   chan struct{} // closed while it runs
	stops   int           // how often it is stopped now
	traps   []*Fault      // crashes that wait for their call
	made    map[callKey]uint64
	calls   int64          // how many were made; each has a number
	held    map[int64]bool // calls whose lock was granted and not given back
	sent    map[int64]clock.Instant
}

// callKey is a kind of call at a point; how often it was made is part of what decides its course.
type callKey struct {
	at   memstore.Point
	op   memstore.Op
	name string
}

// start makes a process. The caller puts it into its slot.
func (w *world) start(id, slot int, plan ProcPlan) *process {
	p := &process{
		w: w, id: id, slot: slot, clk: memstore.NewClock(), client: w.srv.Client(), gone: make(chan struct{}),
		delay: plan.LockDelay, awake: make(chan struct{}), made: map[callKey]uint64{}, held: map[int64]bool{}, sent: map[int64]clock.Instant{},
	}
	close(p.awake)
	p.client.Steer(p.course)
	p.client.Deliver(p.copies)
	m, err := fairlock.Assemble(&fairlock.Config{
		TTL: plan.TTL, Margin: plan.Margin, TicketDelay: plan.TicketDelay, OpTimeout: plan.OpTimeout, LockDelay: plan.LockDelay, Poll: plan.Poll, Label: "simulated",
	}, parts.Parts{
		Clock: p.clk, Queue: arriving{p.client.Queue(), p}, Sessions: p.client.Sessions(), Source: p.client.Source(),
		Chance: newSource(uint64(w.plan.Seed), uint64(id)),
	})
	if err != nil {
		panic("bug: plan: " + err.Error())
	}
	p.m = m
	return p
}

// record takes an event down, unless the process is dead: then it did not happen.
func (p *process) record(e history.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead {
		e.Proc = p.id
		p.w.record(e)
	}
}

// die ends the process: none of its calls reaches the store any more, and its goroutines end.
func (p *process) die() {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return
	}
	p.w.record(history.Event{Kind: history.Killed, At: p.w.now(), Proc: p.id})
	p.dead = true
	close(p.gone)
	p.mu.Unlock()
	p.bury()
}

// bury ends what is left of a dead process's goroutines.
func (p *process) bury() {
	p.w.wg.Go(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.m.Close(over)
	})
}

func (p *process) isDead() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// stop makes the process stand still, between two instructions: it makes no call, gets no reply, and its clock stands until it
// goes on. resume ends it.
func (p *process) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stops++; p.stops == 1 {
		p.awake = make(chan struct{})
		p.clk.Stop()
	}
}

func (p *process) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stops--; p.stops == 0 {
		p.clk.Go() // before anybody can act
		close(p.awake)
	}
}

func (p *process) sleeps() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stops > 0
}

// runs returns when the process runs, or reports that it never will again.
func (p *process) runs() bool {
	for {
		p.mu.Lock()
		awake, stops := p.awake, p.stops
		p.mu.Unlock()
		if p.isDead() {
			return false
		}
		if stops == 0 {
			return true
		}
		select {
		case <-awake:
		case <-p.gone:
		}
	}
}

// close is what a program does that ends in order: it gives up what it holds, then closes.
func (p *process) close() {
	if !p.runs() {
		return
	}
	p.mu.Lock()
	if p.closing || p.dead {
		p.mu.Unlock()
		return
	}
	p.closing = true
	for call := range p.held {
		p.w.record(history.Event{Kind: history.Released, At: p.w.now(), Proc: p.id, Call: call})
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = p.m.Close(ctx) // what is left ends by its lease
}

// copies is how often the process's streams deliver an event.
func (p *process) copies(e waiter.Event) int {
	w := p.w
	if w.active(Mute, p.slot) != nil {
		return 0
	}
	if w.active(Repeat, p.slot) != nil {
		d := newDraw(uint64(w.plan.Seed), uint64(p.id), of("event"), of(e.Name), uint64(e.Settled), uint64(e.Frontier))
		return d.n(4)
	}
	return 1
}

// arriving is a queue.Store that takes down which numbers the process was acknowledged.
type arriving struct {
	queue.Store
	p *process
}

// Enqueue implements [queue.Store].
func (a arriving) Enqueue(ctx context.Context, name string, shape queue.Shape, ar queue.Arrival) (queue.Place, error) {
	defer a.p.sending(ar)()
	place, err := a.Store.Enqueue(ctx, name, shape, ar)
	a.p.arrived(name, ar, place, err == nil)
	return place, err
}

// Try implements [queue.Store].
func (a arriving) Try(ctx context.Context, name string, shape queue.Shape, ar queue.Arrival) (queue.Place, bool, error) {
	defer a.p.sending(ar)()
	place, admitted, err := a.Store.Try(ctx, name, shape, ar)
	a.p.arrived(name, ar, place, err == nil && admitted)
	return place, admitted, err
}

// sending takes down that an arrival is on its way, and returns what is to be called when it is not any more.
func (p *process) sending(a queue.Arrival) (over func()) {
	p.w.asking.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, repeated := p.sent[a.Mark]; !repeated {
		p.sent[a.Mark] = p.w.now()
	}
	return func() { p.w.asking.Add(-1) }
}

func (p *process) arrived(name string, a queue.Arrival, place queue.Place, ok bool) {
	if !ok {
		return
	}
	p.mu.Lock()
	sent := p.sent[a.Mark]
	p.mu.Unlock()
	p.record(history.Event{Kind: history.Arrived, At: p.w.now(), Sent: sent, Lock: name, Lo: place.Lo, Hi: place.Hi})
}
