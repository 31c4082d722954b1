package simulate

import (
	"context"
	"errors"
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
	p.mu.Lock()
	p.calls++
	c := &caller{p: p, id: p.calls, job: j, lock: w.plan.Locks[j.Lock]}
	p.mu.Unlock()
	c.call()
}

// caller is one call of Lock or TryLock.
type caller struct {
	p    *process
	id   int64
	job  Job
	lock LockPlan
}

func (c *caller) tell(e history.Event) {
	e.Call = c.id
	c.p.record(e)
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
	c.tell(history.Event{Kind: history.Call, At: p.w.now(), Lock: c.lock.Name, Units: j.Units, Permits: c.lock.Shape.Permits})
	lock, err := c.take(ctx, opts)
	if !p.runs() {
		return
	}
	if err != nil {
		c.tell(history.Event{Kind: history.Failed, At: p.w.now(), Err: err.Error()})
		return
	}
	c.tell(history.Event{Kind: history.Granted, At: p.w.now(), Lo: lock.Token(), Hi: lock.Token() + j.Units - 1})
	c.hold(lock)
}

// take is the call.
func (c *caller) take(ctx context.Context, opts []fairlock.Option) (*fairlock.Lock, error) {
	m, l, units := c.p.m, c.lock, c.job.Units
	if l.Shape == queue.Mutex {
		if c.job.Try {
			return m.TryLock(ctx, l.Name, opts...)
		}
		return m.Lock(ctx, l.Name, opts...)
	}
	s, err := m.Semaphore(l.Name, l.Shape.Permits)
	if err != nil {
		return nil, err
	}
	if c.job.Try {
		return s.TryAcquire(ctx, units, opts...)
	}
	return s.Acquire(ctx, units, opts...)
}

// hold uses the lock for as long as the job says, looking at it now and then, and gives it back.
func (c *caller) hold(lock *fairlock.Lock) {
	p, j := c.p, c.job
	p.mu.Lock()
	p.held[c.id] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.held, c.id)
	}()
	end := p.w.now().Add(j.Hold)
	for c.trusts(lock) {
		left := end.Sub(p.w.now())
		if left <= 0 {
			break
		}
		if p.sleep(lock.Context(), min(left, j.Step)) == errDead || !p.runs() {
			return
		}
	}
	if p.isDead() || j.Careless && lock.Err() != nil {
		return
	}
	c.tell(history.Event{Kind: history.Released, At: p.w.now()})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if j.Hasty {
		cancel()
	}
	if err := lock.Unlock(ctx); errors.Is(err, fairlock.ErrLost) && p.runs() {
		c.tell(history.Event{Kind: history.Lost, At: p.w.now(), Err: err.Error()})
	}
}

// trusts looks at the lock, and takes down what it is told. No time passes meanwhile.
func (c *caller) trusts(lock *fairlock.Lock) bool {
	p := c.p
	at := p.w.now()
	err, left := lock.Err(), lock.Left()
	p.mu.Lock()
	closing := p.closing
	p.mu.Unlock()
	switch {
	case err != nil:
		c.tell(history.Event{Kind: history.Lost, At: at, Err: err.Error()})
		return false
	case !closing: // otherwise it has been given up, and the loss is on its way
		c.tell(history.Event{Kind: history.Trusted, At: at, Until: at.Add(left)})
	}
	return true
}
