package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairlock/fairlock/internal/measure"
)

// crew is the workers of one run and what is known of them. All of it belongs to the goroutine that calls run.
type crew struct {
	o     *Options
	base  config // of every worker, but for its number and the limit
	view  func(Note)
	began int64 // stamp

	sink    chan report // room for a few events of each worker, so that they seldom wait for the parent
	procs   []*proc     // all that were ever started, in order of their numbers
	live    int
	limit   int64 // rows that may be written, for now
	rows    int64 // highest number seen
	lastNew int64 // stamp of the newest grant

	holds    []Hold
	lost     int
	repaired []int64
	refused  []Refusal

	plan *plan
	err  error // the first failure; the run is over
}

func newCrew(o *Options, base config, down func(context.Context) error, began int64, view func(Note)) *crew {
	rng := rand.New(rand.NewPCG(o.Seed, 0)) //nolint:gosec // chooses victims
	c := &crew{o: o, base: base, view: view, began: began, sink: make(chan report, 1024)}
	c.plan = newPlan(c, rng, down)
	c.limit = c.plan.limit()
	return c
}

const (
	statusPause = 250 * time.Millisecond
	// patience is how long, beyond the lease, nobody may be granted the lock before the run is given up.
	patience = 60 * time.Second
	// farewell is how long workers may take to see that their stdin has ended.
	farewell = 3 * time.Second
)

// run works until all workers have ended. It returns with none left, whatever happens.
func (c *crew) run(ctx context.Context, status func(*crew)) error {
	c.lastNew = measure.Stamp()
	for range c.o.Workers {
		c.hire()
	}
	tick := time.NewTicker(statusPause)
	defer tick.Stop()
	var late <-chan time.Time // the workers should have ended by themselves
	cancelled := ctx.Done()
	for c.live > 0 || c.plan.busy() {
		select {
		case r := <-c.sink:
			c.take(r)
		case err := <-c.plan.stepped:
			c.plan.steppedDown(err)
		case <-tick.C:
			status(c)
			if quiet := time.Duration(measure.Stamp() - c.lastNew); quiet > c.o.TTL+patience {
				c.fail(fmt.Errorf("%w: no grant for %v, %d waiting", ErrFailed, quiet.Round(time.Second), c.waiting()))
			}
		case <-cancelled:
			cancelled = nil
			c.fail(context.Cause(ctx))
		case <-late:
			for _, p := range c.procs {
				if !p.ended {
					p.kill()
				}
			}
		}
		if c.err == nil {
			c.plan.act(ctx)
		} else if late == nil {
			c.plan.cancel()
			for _, p := range c.procs {
				p.dismiss()
			}
			late = time.After(farewell)
		}
	}
	if c.err == nil {
		c.err = c.plan.missing()
	}
	return c.err
}

func (c *crew) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// hire starts one more worker.
func (c *crew) hire() *proc {
	cfg := c.base
	cfg.Worker, cfg.Limit = len(c.procs)+1, c.limit
	p, err := startProc(c.o.Worker(), cfg, c.sink)
	if err != nil {
		c.fail(err)
		return nil
	}
	c.procs = append(c.procs, p)
	c.live++
	return p
}

// raise lets the workers write up to limit rows.
func (c *crew) raise(limit int64) {
	c.limit = limit
	for _, p := range c.procs {
		if p.alive() && p.ready {
			p.tell(command{Limit: limit})
		}
	}
}

// take takes in what a worker said.
func (c *crew) take(r report) {
	p, e := r.from, &r.ev
	if r.end {
		c.gone(p, r.err)
		return
	}
	pl := p.places[e.Goroutine]
	if pl == nil && e.Goroutine > 0 {
		pl = &place{hold: -1}
		p.places[e.Goroutine] = pl
	}
	switch e.Kind {
	case evReady:
		p.ready = true
		if p.alive() {
			p.tell(command{Limit: c.limit}) // it may have been raised since the config was written
		}
	case evWait:
		pl.waiting, pl.since = true, e.At
	case evGrant:
		c.lastNew = max(c.lastNew, e.At)
		c.holds = append(c.holds, Hold{
			Worker: p.id, Goroutine: e.Goroutine, Token: e.Token, Wait: pl.since, Grant: e.At, End: e.At, How: Killed,
		})
		pl.waiting, pl.since, pl.hold = false, e.At, len(c.holds)-1
		p.granted++
	case evRow:
		c.rows = max(c.rows, e.N)
		if e.Repaired > 0 {
			c.repaired = append(c.repaired, e.Repaired)
			c.note(NoteRepair, p, "worker %d completed row %d, which its writer had committed and not inserted", p.id, e.Repaired)
		}
	case evStalled:
		c.holds[pl.hold].End = e.At
		c.plan.stalled(p, e.Token)
	case evUnlock, evLost:
		h := &c.holds[pl.hold]
		for _, by := range e.Refused {
			c.refused = append(c.refused, Refusal{h.Token, by})
		}
		h.End, h.How = e.At, Unlocked
		if e.Kind == evLost {
			h.How = Lost
			c.lost++
			c.note(NoteLost, p, "worker %d/%d lost the lock: %s", p.id, e.Goroutine, e.Text)
		}
		pl.hold = -1
	case evCounts:
		p.counts = e.Counts
	case evFailed, evFatal:
		p.fatal = e.Text
	case evCorrupt:
		p.fatal, p.corrupt = e.Text, true
	}
}

// gone ends a worker. What it held, it held until it was killed, and Hold.End is the last moment that it told.
func (c *crew) gone(p *proc, err error) {
	p.ended = true
	c.live--
	p.dismiss()
	if c.err == nil {
		if err := p.failure(err); err != nil {
			c.fail(err)
		}
	}
	c.plan.gone(p)
}

// waiting counts the goroutines that wait.
func (c *crew) waiting() (n int) {
	for _, p := range c.procs {
		for _, pl := range p.places {
			if pl.waiting && p.alive() {
				n++
			}
		}
	}
	return n
}

func (c *crew) note(what NoteKind, p *proc, format string, args ...any) {
	n := Note{At: time.Duration(measure.Stamp() - c.began), Kind: what, Text: fmt.Sprintf(format, args...)}
	if p != nil {
		n.Worker, n.PID = p.id, p.cmd.Process.Pid
	}
	c.view(n)
}

// ErrFailed: the run could not come to its end because the lock, or the ledger under it, failed. The error is the evidence.
var ErrFailed = errors.New("demo: FAILED")

// errUnfinished: the ledger was complete before all that was to go wrong had gone wrong.
var errUnfinished = errors.New("demo: the ledger was complete before everything planned had been done to the run; use more --invoices")
