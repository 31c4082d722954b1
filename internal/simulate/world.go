package simulate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/history"
	"github.com/fairlock/fairlock/internal/memstore"
)

// Result is what a schedule came to.
type Result struct {
	Plan       Plan
	Events     []history.Event // in the order of time
	Grants     int
	Took       time.Duration // of simulated time
	Violations []string
}

// world is one schedule under way.
type world struct {
	plan   *Plan
	srv    *memstore.Server
	began  time.Time
	wg     sync.WaitGroup // everything but the jobs
	jobs   sync.WaitGroup
	laters atomic.Int64 // writes still to be done
	asking atomic.Int64 // arrivals on their way: each may become one of those
	steps  *steps
	trace  io.Writer // may be nil

	mu     sync.Mutex // guards all below
	events []history.Event
	all    []*process
	slots  []*process // who is in which slot now
	healed bool
	bad    []string
}

const (
	// mostWait is the longest that the last call may take to return after everything is whole again. No schedule needs a
	// tenth of it.
	mostWait = 10 * time.Minute
	// mostUnrest is the same for clearing what the dead left.
	mostUnrest = 5 * time.Minute
)

// Run runs the schedule of a seed. t is what the bubble hangs on; it is not failed.
func Run(t *testing.T, plan Plan) Result { return RunTraced(t, plan, nil) }

// RunTraced is Run that writes down all that happens, unless trace is nil.
func RunTraced(t *testing.T, plan Plan, trace io.Writer) Result {
	res := Result{Plan: plan}
	synctest.Test(t, func(*testing.T) {
		w := newWorld(&plan, trace)
		w.run()
		res.Took = time.Since(w.began)
		res.Events, res.Violations = w.events, w.bad
	})
	judge(&res)
	return res
}

// newWorld is one in which nothing has begun. It belongs to a bubble.
func newWorld(plan *Plan, trace io.Writer) *world {
	w := &world{plan: plan, began: time.Now(), slots: make([]*process, len(plan.Procs)), trace: trace}
	w.srv = memstore.New(w.wall)
	w.steps = newSteps(w)
	w.srv.OnBug(w.fail)
	w.srv.OnWrite(w.steps.written)
	return w
}

// judge checks the history.
func judge(res *Result) {
	// Within one instant the order of processes and calls means nothing.
	slices.SortStableFunc(res.Events, func(a, b history.Event) int {
		if a.At != b.At {
			return int(a.At - b.At)
		}
		return cmp.Or(a.Proc-b.Proc, int(a.Call-b.Call))
	})
	for i := range res.Events {
		if res.Events[i].Kind == history.Granted {
			res.Grants++
		}
	}
	for _, v := range history.Check(res.Events, res.Plan.Deleted.options()) {
		res.Violations = append(res.Violations, v.String())
	}
}

// options are the rules that hold although somebody deletes documents. A deleted lock is free for whoever comes, and its holder
// hears of it only when it looks; a deleted ticket is an orphan number to those who do not see it written anew in time. A
// deleted session costs its owner what it holds, and it hears of that before others can have it.
func (d Deletion) options() history.Options {
	switch d {
	case LockDocument, LockCollection, TicketDocument:
		return history.Options{Without: []history.Rule{history.Exclusion, history.Tokens, history.Order}, Revoked: true}
	}
	return history.Options{Revoked: d == SessionDoc}
}

func (w *world) now() clock.Instant { return clock.Instant(time.Since(w.began)) + 1 }

func (w *world) until(at time.Duration) time.Duration { return max(at-time.Since(w.began), 0) }

// wall is the server's clock.
func (w *world) wall() time.Time {
	now := time.Now()
	if f := w.active(Wall, Everybody); f != nil {
		now = now.Add(f.For)
	}
	return now
}

// active is a fault of a kind that hits a slot now.
func (w *world) active(kind FaultKind, slot int) *Fault {
	at := time.Since(w.began)
	if at > w.plan.Window {
		return nil
	}
	for i := range w.plan.Faults {
		if f := &w.plan.Faults[i]; f.Kind == kind && f.hits(slot, at) {
			return f
		}
	}
	return nil
}

// slowFailover reports whether a failover is so short ago that writes are slow.
func (w *world) slowFailover() bool {
	at := time.Since(w.began)
	if at > w.plan.Window {
		return false
	}
	for i := range w.plan.Faults {
		if f := &w.plan.Faults[i]; f.Kind == Failover && f.To <= at && at < f.To+f.For {
			return true
		}
	}
	return false
}

// tracef writes down what happens, where somebody wants to read it.
func (w *world) tracef(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%12d %s\n", w.now(), fmt.Sprintf(format, args...))
	}
}

func (w *world) record(e history.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracef("%+v", e)
	w.events = append(w.events, e)
}

func (w *world) fail(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracef("VIOLATION %s", what)
	if len(w.bad) < 20 {
		w.bad = append(w.bad, fmt.Sprintf("at %v: %s", time.Since(w.began), what))
	}
}

func (w *world) in(slot int) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slots[slot]
}

// enter starts a process in a slot.
func (w *world) enter(slot int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.start(len(w.all)+1, slot, w.plan.Procs[slot])
	w.all = append(w.all, p)
	w.slots[slot] = p
}

// leave empties the slot of a process, and fills it again after a while if that is above 0.
func (w *world) leave(p *process, again time.Duration) {
	w.mu.Lock()
	if w.slots[p.slot] == p {
		w.slots[p.slot] = nil
	}
	w.mu.Unlock()
	if again > 0 {
		time.Sleep(again)
		w.mu.Lock()
		free := w.slots[p.slot] == nil
		w.mu.Unlock()
		if free {
			w.enter(p.slot)
		}
	}
}

func (w *world) run() {
	for slot, p := range w.plan.Procs {
		w.wg.Go(func() {
			time.Sleep(p.Begins)
			w.enter(slot)
		})
	}
	for _, j := range w.plan.Jobs {
		w.jobs.Go(func() { w.work(j) })
	}
	for i := range w.plan.Faults {
		w.wg.Go(func() { w.inflict(&w.plan.Faults[i], uint64(i)) })
	}
	time.Sleep(w.plan.Window)
	w.heal()
	if !within(mostWait, w.jobs.Wait) {
		// The check of the history names the calls.
		w.fail("calls have not returned " + mostWait.String() + " after everything was whole again")
		w.abort()
		return
	}
	if left := w.settle(); len(left) > 0 {
		w.fail("never quiet: " + strings.Join(left, "; "))
		w.abort()
		return
	}
	w.end()
}

// within reports whether f returned in time.
func within(d time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// heal ends what goes wrong, and sees to it that there is somebody who clears.
func (w *world) heal() {
	w.mu.Lock()
	w.healed = true
	all := slices.Clone(w.all)
	w.mu.Unlock()
	for _, p := range all {
		p.mu.Lock()
		p.traps = nil
		p.mu.Unlock()
		p.client.Thaw()
	}
	w.mu.Lock()
	janitor := w.start(len(w.all)+1, len(w.slots), ProcPlan{
		TTL: time.Second, Margin: 100 * time.Millisecond, TicketDelay: 100 * time.Millisecond, OpTimeout: 5 * time.Second,
	})
	w.all = append(w.all, janitor)
	w.mu.Unlock()
	w.jobs.Go(func() {
		lock, err := janitor.m.Lock(context.Background(), "janitor")
		if err == nil {
			err = lock.Unlock(context.Background())
		}
		if err != nil && !janitor.isDead() {
			w.fail("the janitor: " + err.Error())
		}
	})
}

// settle waits until nothing is left but what living processes need to live, and returns what is left after too long.
func (w *world) settle() []string {
	for range mostUnrest / (250 * time.Millisecond) {
		if w.asking.Load() == 0 && w.laters.Load() == 0 && len(w.unrest()) == 0 {
			return nil
		}
		time.Sleep(250 * time.Millisecond)
	}
	return w.unrest()
}

// end closes all who live. Then nothing is left at all (I8).
func (w *world) end() {
	for _, p := range w.living() {
		p.close()
	}
	w.wg.Wait()
	// Who had the right to sweep may have died, or was closed as he cleared another who had. Whoever sweeps next clears that, and nobody is
	// left to do it here.
	left := slices.DeleteFunc(w.srv.Unrest(), func(what string) bool {
		return strings.Contains(what, "\tsweep") || strings.Contains(what, `\tsweep`)
	})
	if w.plan.Deleted == LockDocument || w.plan.Deleted == LockCollection {
		left = slices.DeleteFunc(left, func(what string) bool { return strings.HasPrefix(what, "ticket") }) // see unrest
	}
	if len(left) > 0 {
		w.fail("left after all have closed: " + strings.Join(left, "; "))
	}
}

// abort ends everything in any way.
func (w *world) abort() {
	w.mu.Lock()
	all := slices.Clone(w.all)
	w.mu.Unlock()
	for _, p := range all {
		p.mu.Lock()
		if !p.dead {
			p.dead = true
			close(p.gone)
		}
		p.mu.Unlock()
		p.bury()
	}
	w.wg.Wait()
	w.jobs.Wait()
}

func (w *world) living() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*process
	for _, p := range w.all {
		if !p.isDead() {
			all = append(all, p)
		}
	}
	return all
}
