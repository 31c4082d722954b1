package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairlock/fairlock/internal/measure"
)

// Disturbance is one thing that was done to the run, and how the lock took it. Times are stamps.
type Disturbance struct {
	Kind   string `json:"kind"`
	Row    int64  `json:"row"` // rows in the ledger when it was due
	Worker int    `json:"worker,omitempty"`
	PID    int    `json:"pid,omitempty"`
	Token  int64  `json:"token,omitempty"` // that the victim held
	Misses int    `json:"misses,omitempty"`

	// Recovery is the time from a kill to the next grant in another process; from a step-down to the next grant that
	// follows its acknowledgement.
	Recovery Millis `json:"recoveryMs"`
	// Gap is the longest time without a grant, from then until the queue as it was had been served twice.
	Gap Millis `json:"longestGapMs"`

	From int64 `json:"-"`
	To   int64 `json:"-"` // 0: until the end

	state disturbanceState
	done  int64 // stamp at which a step-down was acknowledged
	seen  int   // holds that had been granted by then
}

// Kinds of disturbances.
const (
	KillHolder = "kill of a holder"
	KillWaiter = "kill of a waiter"
	StepDown   = "step-down"
)

// disturbanceState goes up by one at a time, but for a miss, which goes back from struck to due.
type disturbanceState uint8

const (
	due      disturbanceState = iota // waits for its row
	armed                            // the victim has been told to stall; or a waiter is being looked for
	struck                           // done, but not known to have hit what it should
	settling                         // hit; the queue goes on
	over
)

// plan does one disturbance after the other, each when the one before is over and the ledger has grown to its row.
//
// A holder is killed between its two writes (L2): it is told to stop there, says so, and is killed while it stands there.
// So it holds for certain when it dies, and at the worst moment.
//
// A waiter is killed when all goroutines of a worker have waited for a while, long enough for their numbers to be issued. That
// it held nothing when it died is known from its last words, which are read to their end; if it did, that was a miss,
// which is counted, and another one is chosen.
type plan struct {
	c      *crew
	rng    *rand.Rand
	all    []*Disturbance
	at     int
	victim *proc

	down    func(context.Context) error // steps the primary down
	cancel  context.CancelFunc          // of down
	downing bool
	stepped chan error // one reply of down
}

func newPlan(c *crew, rng *rand.Rand, down func(context.Context) error) *plan {
	p := &plan{c: c, rng: rng, down: down, cancel: func() {}, stepped: make(chan error, 1)}
	n := int64(len(c.base.Invoices))
	add := func(kind string, percent int64) {
		at := max(1, n*(percent+rng.Int64N(5))/100)
		p.all = append(p.all, &Disturbance{Kind: kind, Row: at})
	}
	if c.o.Kill {
		add(KillHolder, 10)
		add(KillWaiter, 35)
	}
	if c.o.StepDown {
		add(StepDown, 65)
	}
	return p
}

// limit is how many rows may be written before the step-down: it takes time, and a short ledger would be complete before.
func (p *plan) limit() int64 {
	n := int64(len(p.c.base.Invoices))
	if p.c.o.StepDown {
		return n * 9 / 10
	}
	return n
}

// busy reports whether a goroutine of the plan's is under way.
func (p *plan) busy() bool { return p.downing }

// act does what is due.
func (p *plan) act(ctx context.Context) {
	if p.at == len(p.all) {
		return
	}
	d := p.all[p.at]
	switch {
	case d.state == due && p.c.rows >= d.Row:
		p.arm(ctx, d)
	case d.state == armed && d.Kind == KillWaiter:
		p.seekWaiter(d)
	case d.state == settling && p.settled(d):
		d.state, d.To = over, measure.Stamp()
		p.at++
	}
}

func (p *plan) arm(ctx context.Context, d *Disturbance) {
	switch d.Kind {
	case KillHolder:
		ready := p.candidates(func(w *proc) bool { return w.ready })
		if len(ready) == 0 {
			return
		}
		p.victim = ready[p.rng.IntN(len(ready))]
		p.victim.tell(command{Stall: true})
		d.state = armed
	case KillWaiter:
		d.state = armed
	case StepDown:
		d.state, d.From = struck, measure.Stamp()
		p.c.note(NoteStepDown, nil, "primary is told to step down")
		within, cancel := context.WithTimeout(ctx, 30*time.Second)
		p.cancel, p.downing = cancel, true
		go func() { p.stepped <- p.down(within) }()
	}
}

func (p *plan) candidates(fit func(*proc) bool) (all []*proc) {
	for _, w := range p.c.procs {
		if w.alive() && fit(w) {
			all = append(all, w)
		}
	}
	return all
}

// stalled: the victim holds, and does nothing else until it is killed.
func (p *plan) stalled(w *proc, token int64) {
	if p.at == len(p.all) || p.all[p.at].state != armed || w != p.victim {
		return
	}
	d := p.all[p.at]
	d.Token = token
	p.strike(d, w, "while it held token %d, between its two writes", token)
}

// queuedFor is how long a goroutine must have waited to count as one with a number: several times what an enqueue takes.
const queuedFor = 15 * time.Millisecond

// seekWaiter kills the worker that came last among those that only wait: the farthest from the head.
func (p *plan) seekWaiter(d *Disturbance) {
	now := measure.Stamp()
	var best *proc
	var latest int64
	for _, w := range p.candidates(func(w *proc) bool { return w.ready }) {
		since, ok := w.allWaitSince(p.c.o.Goroutines)
		if ok && now-since >= int64(queuedFor) && since > latest {
			best, latest = w, since
		}
	}
	if best != nil {
		p.victim = best
		p.strike(d, best, "while it waited, %v in line", time.Duration(now-latest).Round(time.Millisecond))
	}
}

func (p *plan) strike(d *Disturbance, w *proc, format string, args ...any) {
	w.kill()
	d.state, d.From, d.Worker, d.PID = struck, w.killedAt, w.id, w.cmd.Process.Pid
	what := NoteKillHolder
	if d.Kind == KillWaiter {
		what = NoteKillWaiter
	}
	p.c.note(what, w, "worker %d (pid %d) was killed %s", w.id, d.PID, fmt.Sprintf(format, args...))
	if r := p.c.hire(); r != nil {
		p.c.note(NoteHire, r, "worker %d (pid %d) replaces it", r.id, r.cmd.Process.Pid)
	}
}

// gone takes in that a worker has ended and has said all that it had to say.
func (p *plan) gone(w *proc) {
	if p.at == len(p.all) || w != p.victim {
		return
	}
	d := p.all[p.at]
	if d.state != struck {
		return
	}
	if w.holding() != (d.Kind == KillHolder) {
		d.Misses++
		d.state = due
		p.c.note(NoteMiss, w, "that was a miss: worker %d held the lock when it died; another one is chosen", w.id)
		return
	}
	d.state = settling
	d.seen = len(p.c.holds)
}

func (p *plan) steppedDown(err error) {
	p.downing = false
	p.cancel()
	d := p.all[p.at]
	if err != nil {
		p.c.fail(fmt.Errorf("demo: step-down: %w", err))
		return
	}
	d.state, d.done, d.seen = settling, measure.Stamp(), len(p.c.holds)
	p.c.note(NoteStepDown, nil, "primary has stepped down")
	p.c.raise(int64(len(p.c.base.Invoices)))
}

// settled reports whether the queue as it was has been served twice since.
func (p *plan) settled(d *Disturbance) bool {
	round := p.c.o.Workers * p.c.o.Goroutines
	return len(p.c.holds)-d.seen >= 2*round || p.c.rows == int64(len(p.c.base.Invoices))
}

// missing is the error when something planned was not done.
func (p *plan) missing() error {
	for _, d := range p.all {
		if d.state < settling {
			return fmt.Errorf("%w (not done: %s)", errUnfinished, d.Kind)
		}
	}
	return nil
}

// measure fills in how the lock took each disturbance, from the grants in order.
func (p *plan) measure(grants []Hold) {
	for _, d := range p.all {
		from := max(d.From, d.done)
		end := d.To
		if end == 0 && len(grants) > 0 {
			end = grants[len(grants)-1].Grant
		}
		last := d.From
		var gap int64
		for i := range grants {
			g := &grants[i]
			if g.Grant <= d.From {
				continue
			}
			if d.Recovery == 0 && g.Grant > from && g.Worker != d.Worker {
				d.Recovery = measure.InMillis(g.Grant - from)
			}
			if last < end {
				gap = max(gap, g.Grant-last)
			}
			last = g.Grant
		}
		d.Gap = measure.InMillis(gap)
	}
}
