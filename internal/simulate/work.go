package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/history"
	"github.com/fairlock/fairlock/queue"
)

// work does a job in the process that is in its slot then, if there is one.
func (w *world) work(j Job) {
	time.Sleep(j.At)
	p := w.in(j.Slot)
	if p == nil || !p.runs() {
		return
	}
	newCaller(p, j).call()
}

// newCaller gives the calls that a job is their numbers.
func newCaller(p *process, j Job) *caller {
	c := &caller{p: p, job: j}
	all := j.All
	if all == nil {
		all = []int{j.Lock}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range all {
		p.calls++
		c.ids, c.locks = append(c.ids, p.calls), append(c.locks, p.w.plan.Locks[l])
	}
	if j.All != nil {
		c.set = c.ids[0]
	}
	return c
}

// caller is one call that takes a lock or several.
type caller struct {
	p     *process
	job   Job
	locks []LockPlan
	ids   []int64 // of the calls in the history, one for each lock
	set   int64   // of LockAll; 0: none
}

// held is what a call has got: a *fairlock.Lock, or a *fairlock.Set.
type held interface {
	Err() error
	Left() time.Duration
	Context() context.Context
	Unlock(ctx context.Context) error
}

// tell takes down the same of all locks.
func (c *caller) tell(e history.Event) {
	for _, id := range c.ids {
		e.Call = id
		c.p.record(e)
	}
}

func (c *caller) call() {
	p, j := c.p, c.job
	ctx, cancel := context.WithCancel(context.Background())
	if j.Cancel > 0 {
		ctx, cancel = context.WithTimeout(ctx, j.Cancel)
	}
	defer cancel()
	var opts []fairlock.Option
	if j.MaxWait > 0 {
		opts = append(opts, fairlock.MaxWait(j.MaxWait))
	}
	if j.MaxHold > 0 {
		opts = append(opts, fairlock.MaxHold(j.MaxHold))
	}
	for i, l := range c.locks {
		p.record(history.Event{
			Kind: history.Call, At: p.w.now(), Call: c.ids[i], Set: c.set, Lock: l.Name, Units: j.Units, Permits: l.Shape.Permits,
		})
	}
	h, err := c.take(ctx, opts)
	if !p.runs() {
		return
	}
	if err != nil {
		c.tell(history.Event{Kind: history.Failed, At: p.w.now(), Err: err.Error()})
		return
	}
	for i := range c.locks {
		token := c.lock(h, i).Token()
		p.record(history.Event{Kind: history.Granted, At: p.w.now(), Call: c.ids[i], Lo: token, Hi: token + j.Units - 1})
	}
	c.hold(h)
}

// lock is one of the locks that were taken.
func (c *caller) lock(h held, i int) *fairlock.Lock {
	if s, ok := h.(*fairlock.Set); ok {
		return s.Lock(c.locks[i].Name)
	}
	return h.(*fairlock.Lock)
}

// take is the call.
func (c *caller) take(ctx context.Context, opts []fairlock.Option) (held, error) {
	m, l, j := c.p.m, c.locks[0], c.job
	if j.All != nil {
		var names []string
		for _, l := range c.locks {
			names = append(names, l.Name)
		}
		return m.LockAll(ctx, names, opts...)
	}
	switch l.Shape.Kind {
	case queue.Mutex.Kind:
		if j.Try {
			return m.TryLock(ctx, l.Name, opts...)
		}
		return m.Lock(ctx, l.Name, opts...)
	case queue.RW.Kind:
		rw, err := m.RWLock(l.Name)
		switch {
		case err != nil:
			return nil, err
		case j.Units == 1 && j.Try:
			return rw.TryRLock(ctx, opts...)
		case j.Units == 1:
			return rw.RLock(ctx, opts...)
		case j.Try:
			return rw.TryLock(ctx, opts...)
		}
		return rw.Lock(ctx, opts...)
	}
	s, err := m.Semaphore(l.Name, l.Shape.Permits)
	if err != nil {
		return nil, err
	}
	if j.Try {
		return s.TryAcquire(ctx, j.Units, opts...)
	}
	return s.Acquire(ctx, j.Units, opts...)
}

// hold uses what it has for as long as the job says, looking at it now and then, and gives it back.
func (c *caller) hold(h held) {
	p, j := c.p, c.job
	p.mu.Lock()
	for _, id := range c.ids {
		p.held[id] = true
	}
	p.mu.Unlock()
	end := p.w.now().Add(j.Hold)
	for c.trusts(h) {
		left := end.Sub(p.w.now())
		if left <= 0 {
			break
		}
		if p.sleep(h.Context(), min(left, j.Step)) == errDead || !p.runs() {
			return
		}
		if j.Polite && c.asked(h) && c.trusts(h) {
			break
		}
		if l, ok := h.(*fairlock.Lock); ok && j.Part > 0 && l.Units() > j.Part && !c.reduce(l) {
			return
		}
	}
	lost := h.Err() != nil
	if p.isDead() || j.Careless && lost {
		return // Close gives it back
	}
	if !lost || p.delay == 0 { // a lock-delay stands whatever the holder says, and only Close ends it
		p.mu.Lock()
		for _, id := range c.ids {
			delete(p.held, id)
		}
		p.mu.Unlock()
		c.tell(history.Event{Kind: history.Released, At: p.w.now()})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if j.Hasty {
		cancel()
	}
	if err := h.Unlock(ctx); errors.Is(err, fairlock.ErrLost) && p.runs() {
		c.tell(history.Event{Kind: history.Lost, At: p.w.now(), Err: err.Error()})
	}
}

// asked reports whether somebody asks for one of the locks.
func (c *caller) asked(h held) bool {
	for i := range c.locks {
		select {
		case <-c.lock(h, i).Requested():
			return true
		default:
		}
	}
	return false
}

// reduce gives back some units, and reports whether the process goes on.
func (c *caller) reduce(l *fairlock.Lock) bool {
	p, j := c.p, c.job
	c.tell(history.Event{Kind: history.Reduced, At: p.w.now(), Units: j.Part})
	ctx, cancel := context.WithTimeout(context.Background(), j.Step)
	defer cancel()
	if j.Hasty {
		cancel()
	}
	err := l.Release(ctx, j.Part)
	if !p.runs() {
		return false
	}
	if errors.Is(err, fairlock.ErrInvalidOption) {
		p.w.fail("Release: " + err.Error())
	}
	if errors.Is(err, fairlock.ErrLost) {
		c.tell(history.Event{Kind: history.Lost, At: p.w.now(), Err: err.Error()})
	}
	return true
}

// trusts looks at what it has, and takes down what it is told. No time passes meanwhile.
func (c *caller) trusts(h held) bool {
	p := c.p
	at := p.w.now()
	err, left := h.Err(), h.Left()
	p.mu.Lock()
	closing := p.closing
	p.mu.Unlock()
	switch {
	case err != nil:
		c.tell(history.Event{Kind: history.Lost, At: at, Err: err.Error()})
		for i := range c.locks {
			if l := c.lock(h, i); l.Err() == nil || l.Left() > 0 {
				p.w.fail(fmt.Sprintf("process %d: %q is held, whose set was told to be lost: %v", p.id, l.Name(), err))
			}
		}
		return false
	case !closing: // otherwise it has been given up, and the loss is on its way
		c.tell(history.Event{Kind: history.Trusted, At: at, Until: at.Add(left + p.delay)}) // nobody else is admitted before that, if it is lost
	}
	return true
}
