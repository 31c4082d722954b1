package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/cable"
	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/history"
	"github.com/fairlock/fairlock/internal/replset"
)

// Run is one run of a row, as its functions see it.
type Run struct {
	Row    Row
	Seed   uint64
	Length time.Duration // of the fault phase
	Dir    string        // histories, logs, pictures
	Rand   *rand.Rand    // for Fault alone; everything random comes from it

	Deployment Deployment
	Set        *replset.Set // nil if the row has a Deploy of its own
	DB         *mongo.Database
	Crew       *Crew

	history *collector
	log     func(format string, args ...any)

	cables map[int]*cable.Cable // by process

	mu         sync.Mutex // guards all below
	marks      []Mark
	first      Instant // when harm was done first; 0 if not yet
	recoveries []Recovery
	violations []string
	notes      []string
}

// prefix is fairlock's default, which the crew uses.
const prefix = "fairlock."

// Coll is one of fairlock's collections: locks, tickets or sessions.
func (r *Run) Coll(name string) *mongo.Collection { return r.DB.Collection(prefix + name) }

func (r *Run) registerDB() string { return r.DB.Name() + "_data" }

func (r *Run) ttl() time.Duration {
	if r.Row.Crew.TTL == 0 {
		return 30 * time.Second // fairlock's default
	}
	return r.Row.Crew.TTL
}

// Now is the time on the clock of the histories.
func (r *Run) Now() Instant { return clock.System.Now() }

// Between is a duration from lo to hi by the run's seed.
func (r *Run) Between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Rand.Int64N(int64(hi-lo)+1))
}

// Sleep lets the crew work for d: faults have lengths.
func (r *Run) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Harm says that harm is about to be done, so that the gate is about the time before it. The first Mark says so as well, in case that
// it comes first.
func (r *Run) Harm() { r.harm(r.Now()) }

func (r *Run) harm(at Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == 0 || at < r.first {
		r.first = at
	}
}

// Mark says that a fault is in effect, and that recovery is measured.
func (r *Run) Mark(m Mark) {
	now := r.Now()
	if m.In == 0 {
		m.In = now
	}
	if m.From == 0 {
		m.From = m.In
	}
	if m.Bound == 0 {
		m.Bound = r.Row.Bound
	}
	r.harm(m.From)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks = append(r.marks, m)
}

// Violate reports that a promise was broken.
func (r *Run) Violate(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}

// Note adds a sentence to the result.
func (r *Run) Note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// Events are the events that were written so far, in order for each process.
func (r *Run) Events() []history.Event { return r.history.all() }

// Until waits for a condition on the database or on processes, which is asked every 50 ms.
func (r *Run) Until(ctx context.Context, what string, cond func() bool) error {
	return r.until(ctx, what, cond)
}

// More waits until the crew was granted n further locks.
func (r *Run) More(ctx context.Context, n int) error {
	count := func() int {
		r.history.mu.Lock()
		defer r.history.mu.Unlock()
		return len(r.history.grants)
	}
	if err := r.history.read(); err != nil {
		return err
	}
	want := count() + n
	return r.until(ctx, fmt.Sprintf("%d more grants", n), func() bool { return count() >= want })
}

// patience is how much longer than its bound a recovery is waited for, so that how late it was is known.
const patience = 15 * time.Second

// Recovered waits until all faults that were marked have been recovered from, or are overdue.
func (r *Run) Recovered(ctx context.Context) error {
	for {
		r.mu.Lock()
		if len(r.marks) == 0 {
			r.mu.Unlock()
			return nil
		}
		m := r.marks[0]
		r.marks = r.marks[1:]
		r.mu.Unlock()
		limit, cancel := context.WithTimeout(ctx, max(0, m.From.Add(m.Bound+patience).Sub(r.Now())))
		var at Instant
		err := r.until(limit, "recovery from "+m.What, func() (found bool) {
			at, found = r.history.recovered(m)
			return found
		})
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rec := Recovery{What: m.What, Bound: m.Bound.Milliseconds()}
		switch {
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			return err
		case err != nil:
			rec.MS = -1
			r.Violate("recovery: no grant of %s within %v of %s", lockOrAny(m.Lock), m.Bound+patience, m.What)
		default:
			rec.MS = at.Sub(m.From).Milliseconds()
			if at.Sub(m.From) > m.Bound {
				r.Violate("recovery: from %s to the next grant of %s took %v, the bound is %v", m.What, lockOrAny(m.Lock), at.Sub(m.From), m.Bound)
			}
		}
		r.mu.Lock()
		r.recoveries = append(r.recoveries, rec)
		r.mu.Unlock()
	}
}

func lockOrAny(lock string) string {
	if lock == "" {
		return "any lock"
	}
	return fmt.Sprintf("lock %q", lock)
}

// gateTime is how long the crew must make the gate's rate before the first fault.
const gateTime = 2 * time.Second

// perform is the whole of a run, from a healthy deployment to the verdict.
func (r *Run) perform(ctx context.Context, res *Result) (err error) {
	r.history = newCollector(r.Dir)
	defer r.history.close()
	client, err := mongo.Connect(options.Client().ApplyURI(r.Deployment.URI()))
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = client.Disconnect(ctx)
	}()
	r.DB = client.Database(fmt.Sprintf("faults_%d_%d", os.Getpid(), databases.Add(1)))
	if err := r.prepare(ctx, client); err != nil {
		return err
	}
	if r.Crew, err = newCrew(r); err != nil {
		return err
	}
	defer r.closeCables()
	defer r.Crew.end()
	if r.Row.Before != nil {
		if err := r.Row.Before(ctx, r); err != nil {
			return err
		}
	}
	var g errgroup.Group
	for range r.Row.Crew.Procs {
		g.Go(func() error {
			_, err := r.Crew.Hire(ctx)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, r.Length+r.Row.warm()+longest)
	err = r.trouble(limit, res)
	cancel()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		r.Violate("stranded: the fault phase has not ended after %v: %v", r.Length+r.Row.warm()+longest, err)
	case errors.Is(err, errEnded):
		r.Violate("a process has ended by itself: %v", err)
	case err != nil:
		return err // the harm could not be done, or not undone: nothing can be said
	}
	r.Crew.stop(ctx)
	r.Crew.close(ctx)
	r.quiet(ctx)
	r.judge(res)
	_ = r.DB.Drop(ctx)
	_ = client.Database(r.registerDB()).Drop(ctx)
	return ctx.Err()
}

// longest is how much longer than it was asked to last the fault phase may take: elections, and recoveries that are waited for.
const longest = 4 * time.Minute

// prepare makes indexes and registers.
func (r *Run) prepare(ctx context.Context, client *mongo.Client) error {
	m, err := fairlock.New(ctx, r.DB, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(m.Setup(ctx), m.Close(ctx)); err != nil {
		return err
	}
	names := r.locks()
	for i := range extraLocks {
		names = append(names, extraLock(i))
	}
	return openRegisters(client.Database(r.registerDB()), harness, nil).create(ctx, names)
}

// extraLocks is how many locks there are for Hold and Want beside those of the callers.
const extraLocks = 64

func extraLock(i int) string { return fmt.Sprintf("x%d", i) }

// trouble warms up, and does harm if there is enough traffic for that to mean something.
func (r *Run) trouble(ctx context.Context, res *Result) error {
	warm, cancel := context.WithTimeout(ctx, r.Row.warm())
	begin := r.Now()
	err := r.until(warm, "the gate's rate", func() bool {
		now := r.Now()
		return now.Sub(begin) >= gateTime && r.history.rate(now.Add(-gateTime), now) >= r.Row.gate()
	})
	cancel()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	first := r.Now()
	if err != nil {
		res.Rate = r.history.rate(first.Add(-gateTime), first)
		res.Void = fmt.Sprintf("%.0f grants/s after %v of warming up, the gate is %.0f", res.Rate, r.Row.warm(), r.Row.gate())
		return nil
	}
	if r.Row.Fault == nil {
		err = errors.Join(r.Sleep(ctx, r.Length), r.history.read())
		// There is nothing after which the rate could fall, so all of it counts.
		res.Rate = r.history.rate(first, r.Now())
	} else {
		err = errors.Join(r.Row.Fault(ctx, r), r.history.read())
		r.mu.Lock()
		if r.first != 0 {
			first = r.first
		}
		r.mu.Unlock()
		res.Rate = r.history.rate(first.Add(-gateTime), first)
	}
	if err != nil {
		return fmt.Errorf("faults: %s: %w", r.Row.Name, err)
	}
	if res.Rate < r.Row.gate() {
		res.Void = fmt.Sprintf("%.0f grants/s before the fault, the gate is %.0f", res.Rate, r.Row.gate())
	}
	if err := r.Recovered(ctx); err != nil {
		return err
	}
	if rest := r.Length - r.Now().Sub(begin); rest > 0 {
		if err := r.Sleep(ctx, rest); err != nil {
			return err
		}
	}
	return r.history.read()
}
