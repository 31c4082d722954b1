package simulate

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/history"
	"github.com/fairlock/fairlock/queue"
)

// What operators do, and holders who have a lock-delay, in the schedules of every second seed.

// The kinds of [Fault] that are an operator's call, made by the process in Slot at From.
const (
	Force  FaultKind = "force"  // ForceUnlock of whoever holds the lock
	Resize FaultKind = "resize" // SetPermits of the lock to N
	Ask    FaultKind = "ask"    // RequestRelease of the lock
)

// operators draws them, from chance of its own. Where somebody deletes documents there are none: a lock that was made anew has the permits that users name.
func (p *Plan) operators() {
	r := &planner{rand.New(rand.NewPCG(uint64(p.Seed), 0x6f706572)), *p}
	if r.p.Deleted != Nothing || r.chance(0.5) {
		return
	}
	r.p.Procs, r.p.Jobs, r.p.Faults = slices.Clone(p.Procs), slices.Clone(p.Jobs), slices.Clone(p.Faults)
	if r.chance(0.3) {
		for i := range r.p.Procs {
			r.p.Procs[i].LockDelay = r.between(0, 2*time.Second)
		}
	}
	for i := range r.p.Jobs {
		r.p.Jobs[i].Polite = r.chance(0.5)
	}
	for range 1 + r.IntN(6) {
		r.p.Faults = append(r.p.Faults, r.operator())
	}
	*p = r.p
}

func (r *planner) operator() Fault {
	f := Fault{
		Kind: pick(r, Force, Force, Resize, Resize, Ask), Slot: r.IntN(len(r.p.Procs)), Lock: r.IntN(len(r.p.Locks)),
		From: r.between(100*time.Millisecond, r.p.Window),
	}
	if f.Kind == Resize {
		var pools []int
		for i, l := range r.p.Locks {
			if l.Shape.Kind == queue.KindSemaphore {
				pools = append(pools, i)
			}
		}
		if len(pools) == 0 {
			f.Kind = Force
		} else {
			f.Lock = pick(r, pools...)
			f.N = 1 + r.Int64N(2*r.p.Locks[f.Lock].Shape.Permits)
		}
	}
	return f
}

// attempts is how often an operator repeats a call whose outcome he does not know.
const attempts = 4

// operate makes an operator's call.
func (w *world) operate(p *process, f *Fault) {
	if !p.runs() {
		return
	}
	l := w.plan.Locks[f.Lock]
	call := func(ctx context.Context) error { return p.m.RequestRelease(ctx, l.Name) }
	forced := history.Event{Kind: history.Forced, At: w.now(), Lock: l.Name}
	switch f.Kind {
	case Resize:
		s, err := p.m.Semaphore(l.Name, l.Shape.Permits)
		if err != nil {
			w.fail("Semaphore: " + err.Error())
			return
		}
		call = func(ctx context.Context) error { return s.SetPermits(ctx, f.N) }
	case Force:
		call = func(ctx context.Context) error {
			if forced.Lo == 0 {
				info, err := p.m.Inspect(ctx, l.Name)
				switch {
				case err != nil:
					return err
				case info == nil || len(info.Holders) == 0:
					return fairlock.ErrNotHeld
				}
				forced.Lo = info.Holders[int(f.From)%len(info.Holders)].Token
				forced.At = w.now()
			}
			return p.m.ForceUnlock(ctx, l.Name, forced.Lo, "simulated")
		}
	}
	for range attempts {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		err := call(ctx)
		cancel()
		switch {
		case err == nil || !errors.Is(err, fairlock.ErrNotHeld):
			if f.Kind == Force && forced.Lo > 0 {
				w.record(forced) // at least it may have been done
			}
			if err == nil || p.isDead() {
				return
			}
		case f.Kind != Resize:
			return
		}
	}
}
