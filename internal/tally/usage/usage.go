// Package usage is programs that use all that fairlock has, at random, while processes are cut off, suspended, killed and closed: for tests of what observers
// are told. It runs on the fake time of testing/synctest.
package usage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/fairlocktest"
)

const (
	processes = 3
	workers   = 5 // of each process
	turns     = 30
	ttl       = 10 * time.Second
)

// Told is what was asked for, as its callers know it.
type Told struct {
	Calls   int64 // that took a lock or failed to, but for those of LockAll
	Sets    int64 // that LockAll made
	Granted int64 // of Calls
}

type program struct {
	testing.TB
	srv  *fairlocktest.Server
	cfg  fairlock.Config
	ctx  context.Context
	told Told
	mu   sync.Mutex // guards told
}

// Run runs such programs, with a bubble's test, to their end: all locks are given back or lost, and all managers closed. before is called when nobody uses
// anything any more and managers are still open, but for those that were killed.
func Run(tb testing.TB, seed uint64, observer *fairlock.Observer, before func()) Told {
	p := &program{TB: tb, srv: fairlocktest.NewServer(), ctx: tb.Context()}
	p.cfg = fairlock.Config{
		TTL: ttl, Observer: observer, MaxWaiters: 8, MaxCalls: 4, TicketDelay: 100 * time.Millisecond,
	}
	chance := rand.New(rand.NewPCG(seed, 1))
	var open []*fairlocktest.Process
	var all sync.WaitGroup
	for i := range processes {
		proc := p.process()
		open = append(open, proc)
		for w := range workers {
			r := rand.New(rand.NewPCG(seed, uint64(100+i*workers+w)))
			all.Go(func() {
				for range turns {
					p.turn(r, proc.Manager)
				}
			})
		}
		harm := rand.New(rand.NewPCG(seed, uint64(10+i)))
		all.Go(func() { p.harm(harm, proc, i == 0 && chance.IntN(2) == 0) })
	}
	all.Wait()
	time.Sleep(3 * ttl) // what the dead had is cleared, and streams linger no more
	before()
	for _, proc := range open {
		if err := proc.Close(context.WithoutCancel(p.ctx)); err != nil && !errors.Is(err, context.Canceled) {
			tb.Errorf("close: %v", err)
		}
	}
	return p.told
}

func (p *program) process() *fairlocktest.Process {
	cfg := p.cfg
	return p.srv.Process(p, &cfg)
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) + 1 }

// harm disturbs a process now and then.
func (p *program) harm(r *rand.Rand, proc *fairlocktest.Process, kill bool) {
	for range 4 {
		time.Sleep(upTo(r, 20*time.Second))
		switch r.IntN(4) {
		case 0:
			proc.Cut()
			time.Sleep(upTo(r, 15*time.Second))
			proc.Heal()
		case 1:
			proc.Suspend(upTo(r, 12*time.Second))
		case 2:
			if all, err := proc.Inspect(p.ctx, "x"); err == nil && len(all.Holders) > 0 {
				_ = proc.ForceUnlock(p.ctx, "x", all.Holders[0].Token, "test")
			}
		case 3:
			if s, err := proc.Semaphore("s", 3); err == nil {
				_ = s.SetPermits(p.ctx, r.Int64N(4)+1)
			}
		}
	}
	if kill {
		proc.Kill()
	}
}

// turn is one use.
func (p *program) turn(r *rand.Rand, m *fairlock.Manager) {
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	if r.IntN(3) == 0 {
		ctx, cancel = context.WithCancel(ctx)
		defer time.AfterFunc(upTo(r, 2*time.Second), cancel).Stop()
		defer cancel()
	}
	var opts []fairlock.Option
	if r.IntN(3) == 0 {
		opts = append(opts, fairlock.MaxWait(upTo(r, 3*time.Second)))
	}
	if r.IntN(4) == 0 {
		opts = append(opts, fairlock.MaxHold(upTo(r, 500*time.Millisecond)))
	}
	switch r.IntN(8) {
	case 0:
		l, err := m.TryLock(ctx, "x", opts...)
		p.held(ctx, r, l, err)
	case 1:
		s, err := m.Semaphore("s", 3)
		p.must(err)
		n := r.Int64N(4) + 1 // there can be fewer
		take := s.Acquire
		if r.IntN(3) == 0 {
			take = s.TryAcquire
		}
		l, err := take(ctx, n, opts...)
		if err == nil && n > 1 {
			_ = l.Release(ctx, 1)
		}
		p.held(ctx, r, l, err)
	case 2:
		rw, err := m.RWLock("rw")
		p.must(err)
		l, err := []func(context.Context, ...fairlock.Option) (*fairlock.Lock, error){rw.RLock, rw.Lock, rw.TryRLock, rw.TryLock}[r.IntN(4)](ctx, opts...)
		p.held(ctx, r, l, err)
	case 3:
		set, err := m.LockAll(ctx, []string{"a", "b", "x"}[r.IntN(2):], opts...)
		p.mu.Lock()
		p.told.Sets++
		p.mu.Unlock()
		if err == nil {
			time.Sleep(upTo(r, 300*time.Millisecond))
			_ = set.Unlock(ctx)
		}
	case 4:
		e, err := m.Election("led")
		p.must(err)
		lead, err := e.Campaign(ctx, "me", opts...)
		p.count(err)
		if err == nil {
			time.Sleep(upTo(r, 300*time.Millisecond))
			_ = lead.Resign(ctx)
		}
	case 5:
		began := false
		err := m.Do(ctx, "x", func(under context.Context) error {
			began = true
			_, err := m.Lock(under, "x") // can only wait for itself
			p.count(err)
			return nil
		}, opts...)
		if began {
			err = nil
		}
		p.count(err)
	default:
		l, err := m.Lock(ctx, fmt.Sprint("abx"[r.IntN(3):][:1]), opts...)
		p.held(ctx, r, l, err)
	}
	time.Sleep(upTo(r, time.Second))
}

// held is what a call has brought: it is held for a while and given back, also when it has been lost meanwhile, twice sometimes, and by a context that is over.
func (p *program) held(ctx context.Context, r *rand.Rand, l *fairlock.Lock, err error) {
	p.count(err)
	if err != nil {
		return
	}
	long := 400 * time.Millisecond
	if r.IntN(12) == 0 {
		long = 20 * time.Second
	}
	time.Sleep(upTo(r, long))
	for range r.IntN(2) + 1 {
		_ = l.Unlock(ctx)
	}
}

func (p *program) count(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told.Calls++
	if err == nil {
		p.told.Granted++
	}
}

func (p *program) must(err error) {
	if err != nil {
		p.Errorf("%v", err)
	}
}
