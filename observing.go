package fairlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/clock"
)

// mostUntold is how many events wait for an observer that is busy.
const mostUntold = 1024

// observing is the manager's side of its observer. Where there is none the manager has no observing, and all that is left of it is a comparison.
type observing struct {
	m *Manager
	o Observer

	events chan func() // capacity mostUntold; what does not fit is counted and dropped, since whoever tells may hold any mutex
	start  sync.Once   // of the goroutine, at the first event: a manager that was never used has none
	stop   chan struct{}
	ending sync.Once     // of stop
	done   chan struct{} // closed when the goroutine is gone
}

// hold is a granted lock as its observer knows it. Whoever takes it from the lock, under the lock's mutex, tells its end.
type hold struct {
	ctx   context.Context
	of    Acquired
	since clock.Instant
}

func newObserving(m *Manager, o *Observer) *observing {
	if o == nil {
		return nil
	}
	return &observing{m: m, o: *o, events: make(chan func(), mostUntold), stop: make(chan struct{}), done: make(chan struct{})}
}

// made tells of a new manager.
func (b *observing) made() {
	if b != nil && b.o.Made != nil {
		b.safely(func() { b.o.Made(b.m) })
	}
}

// safely runs a function of the observer's, and returns its panic, which is logged. It must not go through a caller who holds a lock, nor end the process.
func (b *observing) safely(f func()) *panicked {
	first := guard(f)
	for p := first; p != nil; p = p.next {
		b.m.log().Error("fairlock: observer panicked", "error", p.what, "stack", string(p.stack))
	}
	return first
}

// under is safely for a function that makes a context of ctx.
func (b *observing) under(ctx context.Context, f func() context.Context) context.Context {
	made := ctx
	if p := b.safely(func() { made = orElse(f(), ctx) }); p != nil {
		made = orElse(p.ctx, ctx)
	}
	return made
}

// tell has the observer's goroutine run f. It never blocks.
func (b *observing) tell(f func()) {
	select {
	case <-b.stop:
		return
	default:
	}
	b.start.Do(func() { go b.run() })
	select {
	case b.events <- f:
	default:
		b.m.stats.unobserved.Add(1)
	}
}

// run belongs to the manager, and is not one of its tasks: nothing but the end of Close waits for it.
func (b *observing) run() {
	defer close(b.done)
	for {
		select {
		case f := <-b.events:
			b.safely(f)
		case <-b.stop:
			// What was told before the stop is in the channel by now.
			for len(b.events) > 0 {
				b.safely(<-b.events)
			}
			if b.o.Closed != nil {
				b.safely(func() { b.o.Closed(b.m) })
			}
			return
		}
	}
}

// end has everything told that happened up to now, and waits for that as long as ctx allows.
func (b *observing) end(ctx context.Context) {
	if b == nil {
		return
	}
	b.start.Do(func() { go b.run() })
	b.ending.Do(func() { close(b.stop) })
	select {
	case <-b.done:
	case <-ctx.Done():
	}
}

// errNotReturned is told of a call that neither got the lock nor failed: a function of the user's has panicked, or ended the goroutine.
var errNotReturned = errors.New("fairlock: a function of the user's has not returned")

// acquire is Manager.take with an observer.
func (b *observing) acquire(ctx context.Context, name string, o *options, try bool) (l *Lock, err error) {
	a := Acquired{Acquiring: Acquiring{Name: name, Kind: o.ask.kind(), Units: o.ask.told(), Try: try}}
	under := ctx
	if b.o.Acquiring != nil {
		under = b.under(ctx, func() context.Context { return b.o.Acquiring(ctx, a.Acquiring) })
	}
	began := b.m.clock.Now()
	err = errNotReturned
	defer func() { l.observe(b.acquired(under, a, began, l, err)) }()
	return b.m.take(ctx, name, o, try)
}

// acquired tells how a call ended, and returns the hold of a lock that was granted.
func (b *observing) acquired(ctx context.Context, a Acquired, began clock.Instant, l *Lock, err error) *hold {
	now := b.m.clock.Now()
	a.Waited, a.Err = now.Sub(began), err
	if l != nil {
		a.Token, a.Ahead = l.Token(), l.claim.ahead
	}
	if b.o.Acquired != nil {
		ctx = b.under(ctx, func() context.Context { return b.o.Acquired(ctx, a) })
	}
	return &hold{ctx: ctx, of: a, since: now}
}

// observe begins the hold of a lock that its caller is about to get. When it is lost already this is its end, told here: the manager's goroutine may be
// gone, since Close does not wait for callers.
func (l *Lock) observe(h *hold) {
	if l == nil {
		return // not granted
	}
	l.mu.Lock()
	l.parent = h.ctx
	lost, at := l.lost, l.lostAt
	if lost == nil {
		l.hold = h
	}
	l.mu.Unlock()
	if lost != nil {
		l.line.m.observing.ended(h.ctx, Ended{Acquired: h.of, Held: max(at.Sub(h.since), 0), Err: lost})
	}
}

// endHoldLocked tells that the lock is over at an instant, but for those who unlock it, unless that was told. undone: of no loss. The caller holds mu, and
// maybe others.
func (l *Lock) endHoldLocked(at clock.Instant, lost error) {
	h := l.hold
	if h == nil {
		return
	}
	l.hold = nil
	b := l.line.m.observing
	if b.o.Ended == nil {
		return
	}
	e := Ended{Acquired: h.of, Held: at.Sub(h.since), Err: lost, Undone: lost == nil}
	b.tell(func() { b.ended(h.ctx, e) })
}

// unlocked tells of a lock that Unlock has given back, at which it was over, and handed on.
func (b *observing) unlocked(h *hold, over clock.Instant, err error) {
	b.ended(h.ctx, Ended{Acquired: h.of, Held: over.Sub(h.since), Handed: b.m.clock.Now().Sub(over), Err: err})
}

func (b *observing) ended(ctx context.Context, e Ended) {
	if b.o.Ended != nil {
		b.safely(func() { b.o.Ended(ctx, e) })
	}
}

// The rest is what packages reaper and waiter call from goroutines that must not be held up. Each is nil where nobody asks.

func (b *observing) renewed() func(time.Duration, error) {
	if b == nil || b.o.Renewed == nil {
		return nil
	}
	return func(took time.Duration, err error) { b.tell(func() { b.o.Renewed(Renewed{Took: took, Err: err}) }) }
}

func (b *observing) streamOpened() func(time.Duration) {
	if b == nil || b.o.StreamOpened == nil {
		return nil
	}
	return func(took time.Duration) { b.tell(func() { b.o.StreamOpened(took) }) }
}

func (b *observing) streamFailed() func(string, error) {
	if b == nil || b.o.StreamFailed == nil {
		return nil
	}
	return func(reason string, err error) {
		b.tell(func() { b.o.StreamFailed(StreamFailed{Reason: reason, Err: err}) })
	}
}

func (b *observing) reaped() func(kind string, n int64, lock, session string) {
	if b == nil || b.o.Reaped == nil {
		return nil
	}
	return func(kind string, n int64, lock, session string) {
		b.tell(func() { b.o.Reaped(Reaped{Kind: kind, N: n, Lock: lock, Session: session}) })
	}
}
