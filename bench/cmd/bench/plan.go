package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/fairlock/fairlock/bench/contend"
	"github.com/fairlock/fairlock/bench/fair"
	"github.com/fairlock/fairlock/bench/recipes"
	"github.com/fairlock/fairlock/bench/report"
	"github.com/fairlock/fairlock/bench/run"
)

// plan is what is measured and what has come out so far.
type plan struct {
	options
	server *run.Mongo
	out    report.Fairlock
	begun  time.Time
}

// run does all experiments. The quiet ones come first, on a server that has no history.
func (p *plan) run(ctx context.Context) error {
	p.begun = time.Now()
	steps := map[string]func(context.Context) error{
		"pair": p.pair, "handoff": p.handOff, "combine": p.combine, "crowd": p.crowd, "processes": p.processes, "semaphore": p.semaphore, "idle": p.idle,
		"recipes": p.recipes,
	}
	for _, e := range experiments {
		if !p.does(e) {
			continue
		}
		if err := steps[e](ctx); err != nil {
			return fmt.Errorf("%s: %w", e, err)
		}
	}
	return nil
}

// progress tells people what is done at present.
func (p *plan) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4ds  %s\n", int(time.Since(p.begun).Seconds()), fmt.Sprintf(format, args...))
}

// longer is n, or three times as much with -long.
func longer[T int | time.Duration](p *plan, n T) T {
	if p.long {
		return 3 * n
	}
	return n
}

func (p *plan) pair(ctx context.Context) error {
	p.progress("pair")
	a, err := fair.Pair(ctx, p.server, longer(p, 500))
	p.out.Pair = &a
	return err
}

// quietPause is the idle time before each hand-off and each floor.
const quietPause = 20 * time.Millisecond

func (p *plan) handOff(ctx context.Context) error {
	p.progress("hand-off between two processes")
	a, err := fair.HandOff(ctx, p.server, 0, longer(p, 400), quietPause)
	p.out.HandOff = &a
	return err
}

func (p *plan) combine(ctx context.Context) error {
	p.progress("64 goroutines")
	c, err := fair.Combine(ctx, p.server, 64, longer(p, 4*time.Second))
	p.out.Combine = &c
	return err
}

func (p *plan) crowd(ctx context.Context) error {
	p.progress("10,000 goroutines blocked")
	c, err := fair.Crowd(ctx, p.server, 10_000, longer(p, 10*time.Second))
	p.out.Crowd = &c
	return err
}

var fairlock = run.Contestant{Kind: "fairlock", Server: "mongo"}

func (p *plan) processes(ctx context.Context) error {
	var err error
	p.out.Rows, err = p.matrix(ctx, p.out.Rows, []run.Contestant{fairlock}, p.sizes)
	return err
}

// semaphore measures a semaphore beside a mutex, both with 64 processes that hold for 5 ms, and its hand-off on a quiet machine.
func (p *plan) semaphore(ctx context.Context) error {
	p.progress("hand-off of one permit of %d between two processes", contend.Permits)
	hand, err := fair.HandOff(ctx, p.server, contend.Permits, longer(p, 200), quietPause)
	if err != nil {
		return err
	}
	s := report.Semaphore{Permits: contend.Permits, HandOff: hand}
	for kind, row := range map[string]*run.Row{fairlock.Kind: &s.Mutex, contend.Semaphore().Name: &s.Shared} {
		const n, hold = 64, 5 * time.Millisecond
		p.progress("%s, %d processes, %v held", kind, n, hold)
		*row, err = run.Measure(ctx, p.server, run.Spec{
			Contestant: run.Contestant{Kind: kind, Server: "mongo"}, N: n, Hold: hold,
			Warm: run.WarmFor(n), Window: run.WindowFor(n, p.window), Floors: 100,
		})
		if err != nil {
			return err
		}
	}
	p.out.Semaphore = &s
	return nil
}

// matrix runs contestants at sizes and hold times.
func (p *plan) matrix(ctx context.Context, rows []run.Row, contestants []run.Contestant, sizes []int) ([]run.Row, error) {
	holds := []time.Duration{0}
	if p.long {
		holds = append(holds, 5*time.Millisecond)
	}
	for _, hold := range holds {
		for _, n := range sizes {
			for _, c := range contestants {
				p.progress("%s, %d processes, %v held", c.Kind, n, hold)
				row, err := run.Measure(ctx, p.server, run.Spec{
					Contestant: c, N: n, Hold: hold, Warm: run.WarmFor(n), Window: run.WindowFor(n, p.window), Floors: 100,
				})
				if err != nil {
					return rows, err
				}
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}

func (p *plan) idle(ctx context.Context) error {
	contestants := []run.Contestant{fairlock}
	if p.long {
		for _, k := range recipes.Kinds() {
			contestants = append(contestants, run.Contestant{Kind: k.Name, Server: k.Server})
		}
	}
	for _, c := range contestants {
		p.progress("%s, 128 processes blocked", c.Kind)
		window := 30 * time.Second
		if c.Kind != fairlock.Kind {
			window = 10 * time.Second
		}
		i, err := run.MeasureIdle(ctx, p.server, run.IdleSpec{
			Contestant: c, N: 128, Settle: 5 * time.Second, Connected: window / 2, Blocked: window,
		})
		if err != nil {
			return err
		}
		p.out.Idle = append(p.out.Idle, i)
	}
	return nil
}

func (p *plan) recipes(ctx context.Context) error {
	var contestants []run.Contestant
	for _, k := range recipes.Kinds() {
		contestants = append(contestants, run.Contestant{Kind: k.Name, Server: k.Server})
	}
	sizes := p.sizes[:0:0]
	for _, n := range p.sizes {
		if n <= 128 { // beyond, pollers starve each other and nothing is measured
			sizes = append(sizes, n)
		}
	}
	var err error
	p.out.Recipes, err = p.matrix(ctx, p.out.Recipes, contestants, sizes)
	return err
}
