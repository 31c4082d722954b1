package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fairlock/fairlock/bench/peers"
	"github.com/fairlock/fairlock/bench/run"
)

const (
	// blocked is how many processes the idle cost is measured with.
	blocked = 128
	// floors is how often a server's floor is measured before a run and after it.
	floors = 100
	// settle is the time before each window of an idle measurement.
	settle = 2 * time.Second
	// startLimit bounds the start of a server, with the fetching and building that the first one may take.
	startLimit = 10 * time.Minute
)

// plan is what is measured and what has come out so far.
type plan struct {
	options
	results *Results
	begun   time.Time
	total   time.Duration // estimate of all
	done    time.Duration // estimate of what is over
}

// task is one measurement: a run, or if idle is set what blocked processes cost.
type task struct {
	run.Contestant
	n    int
	hold time.Duration
	idle bool
}

func (t task) String() string {
	if t.idle {
		return fmt.Sprintf("%s, %d processes blocked", t.Kind, t.n)
	}
	return fmt.Sprintf("%s, %d processes, %v held", t.Kind, t.n, t.hold)
}

// tasks is all that is to be done on one server. At each size one kind comes after another: what changes on the machine in the course of a
// run meets all of them.
func (o options) tasks(server string) (all []task) {
	var here []run.Contestant
	for _, c := range o.contestants {
		if c.Server == server {
			here = append(here, c)
		}
	}
	for _, hold := range o.holds {
		for _, n := range o.sizes {
			for _, c := range here {
				all = append(all, task{Contestant: c, n: n, hold: hold})
			}
		}
	}
	if o.idle == 0 {
		return all
	}
	for _, c := range here {
		n := blocked
		if most := peers.MaxContenders(c.Kind); most > 0 {
			n = min(n, most)
		}
		all = append(all, task{Contestant: c, n: n, idle: true})
	}
	return all
}

// servers are those of the contestants, in their order.
func (o options) servers() (names []string) {
	seen := map[string]bool{}
	for _, c := range o.contestants {
		if !seen[c.Server] {
			seen[c.Server] = true
			names = append(names, c.Server)
		}
	}
	return names
}

// bench measures server by server, so that only one is there at a time. A kind that fails does not stop the rest.
func bench(ctx context.Context, o options) error {
	results, err := load(o.out)
	if err != nil {
		return err
	}
	p := &plan{options: o, results: results, begun: time.Now()}
	due := map[string][]task{}
	count := 0
	for _, name := range o.servers() {
		for _, t := range o.tasks(name) {
			if o.resume && results.has(t, o) {
				continue
			}
			results.forget(t)
			due[name] = append(due[name], t)
			p.total += o.estimate(t)
			count++
		}
	}
	p.progress("%d measurements, about %v, and the builds of what was never built here", count, p.total.Round(10*time.Second))
	err = results.save(o.out) // what is due is out of it, so that -resume does not take an older run for this one
	for _, name := range o.servers() {
		if err == nil && len(due[name]) > 0 {
			err = p.server(ctx, name, due[name])
		}
	}
	if err := errors.Join(err, results.write(o.out)); err != nil {
		return err
	}
	fmt.Println(results.Markdown())
	return nil
}

// progress tells people what is done at present.
func (p *plan) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%5ds  %s\n", int(time.Since(p.begun).Seconds()), fmt.Sprintf(format, args...))
}

// server does all that is due on one server. Its error is of ctx, of the server's end or of the results' folder.
func (p *plan) server(ctx context.Context, name string, due []task) (err error) {
	p.progress("start %s", name)
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	s, startErr := peers.Start(starting, name)
	if ctx.Err() != nil && startErr != nil {
		return context.Cause(ctx)
	}
	if startErr == nil {
		defer func() { err = errors.Join(err, s.Stop(context.WithoutCancel(ctx))) }()
		p.results.version(s)
	}
	prepared := map[string]error{}
	for _, t := range due {
		if _, asked := prepared[t.Kind]; !asked {
			why := startErr
			if why == nil {
				why = peers.Prepare(starting, t.Contestant)
			}
			prepared[t.Kind] = why
		}
		why := prepared[t.Kind]
		if most := peers.MaxContenders(t.Kind); why == nil && most > 0 && t.n > most {
			why = fmt.Errorf("each contender is a JVM: at most %d", most)
		}
		if err := p.measure(ctx, s, t, why); err != nil {
			return err
		}
		if err := p.results.save(p.out); err != nil {
			return err
		}
		p.done += p.estimate(t)
	}
	return nil
}

// measure does one task, or notes why it was not done. Its error is ctx's alone.
func (p *plan) measure(ctx context.Context, s run.Server, t task, why error) error {
	if why == nil {
		p.progress("%v; about %v left", t, (p.total - p.done).Round(10*time.Second))
		why = p.run(ctx, s, t)
	} else {
		p.progress("%v", t)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if why != nil {
		p.progress("not run: %v", why)
		p.results.notRun(t, why)
	}
	return nil
}

// run does one task and adds what comes out.
func (p *plan) run(ctx context.Context, s run.Server, t task) error {
	if t.idle {
		idle, err := run.MeasureIdle(ctx, s, run.IdleSpec{
			Contestant: t.Contestant, N: t.n, Settle: settle, Connected: p.idle / 2, Blocked: p.idle,
		})
		if err == nil {
			p.results.addIdle(idle, p.idle)
		}
		return err
	}
	row, err := run.Measure(ctx, s, run.Spec{
		Contestant: t.Contestant, N: t.n, Hold: t.hold, Warm: run.WarmFor(t.n) + peers.ExtraWarm(t.Kind), Window: run.WindowFor(t.n, p.window), Floors: floors,
	})
	if err == nil {
		p.results.add(row)
	}
	return err
}
