package run

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/bench/stats"
)

// Idle is what contenders cost who do nothing: connected only, and blocked on a lock that another one holds.
type Idle struct {
	Kind      string   `json:"kind"`
	N         int      `json:"contenders"`
	Connected IdleCost `json:"connected"`
	Blocked   IdleCost `json:"blocked"`
}

// PrimaryPct is the CPU of the primary for the blocked beyond the connected, in percent of a core.
func (i Idle) PrimaryPct() float64 { return i.Blocked.Primary - i.Connected.Primary }

// IdleCost is a cost over a stretch of time. CPU is in percent of a core.
type IdleCost struct {
	Seconds  float64 `json:"seconds"`
	Servers  float64 `json:"server_cpu_pct"`
	Primary  float64 `json:"primary_cpu_pct"` // 0 for a server that has none
	Clients  float64 `json:"client_cpu_pct"`
	Ops      float64 `json:"server_ops_per_s"`
	Commands float64 `json:"commands_per_s"` // sent by contenders; 0: they do not count

	Other map[string]float64 `json:"other_per_s,omitempty"` // whatever else they count
}

// IdleSpec is how to measure Idle.
type IdleSpec struct {
	Contestant         Contestant
	N                  int
	Settle             time.Duration // before each window
	Connected, Blocked time.Duration // windows
}

// primaried is a Server of several processes of which one does the work.
type primaried interface {
	PrimaryPID(ctx context.Context) (int, error)
}

// MeasureIdle measures the same processes twice: connected, and then blocked.
func MeasureIdle(ctx context.Context, s Server, spec IdleSpec) (idle Idle, err error) {
	idle = Idle{Kind: spec.Contestant.Kind, N: spec.N}
	lock := LockName()
	holder, err := StartGroup(ctx, spec.Contestant, s.Target(), lock, 1, time.Hour)
	if err != nil {
		return idle, err
	}
	defer holder.Kill()
	g, err := StartGroup(ctx, spec.Contestant, s.Target(), lock, spec.N, 0)
	if err != nil {
		return idle, err
	}
	defer g.Kill()
	if idle.Connected, err = idleCost(ctx, s, g, spec.Settle, spec.Connected); err != nil {
		return idle, err
	}
	holder.Go()
	if err := holder.Await(ctx, time.Second); err != nil { // it has the lock: nobody else wants it
		return idle, err
	}
	g.Go()
	if idle.Blocked, err = idleCost(ctx, s, g, spec.Settle, spec.Blocked); err != nil {
		return idle, err
	}
	// The waiters first, for the holder's release would let them run.
	records, totals, err := g.Stop(ctx)
	if err != nil {
		return idle, err
	}
	if n := len(stats.Granted(records)); n != 0 {
		return idle, fmt.Errorf("run: %d of %d blocked contenders got a lock that another one held", n, spec.N)
	}
	held, _, err := holder.Stop(ctx)
	if err != nil {
		return idle, err
	}
	if n := len(stats.Granted(held)); n != 1 {
		return idle, fmt.Errorf("run: the holder was granted the lock %d times, not once", n)
	}
	b := &idle.Blocked
	b.Other = map[string]float64{}
	for _, t := range totals {
		if !t.Marked {
			continue
		}
		b.Commands += float64(t.Commands) / b.Seconds
		for name, n := range t.Other {
			if n != 0 {
				b.Other[name] += float64(n) / b.Seconds
			}
		}
	}
	return idle, nil
}

func idleCost(ctx context.Context, s Server, g *Group, settle, window time.Duration) (c IdleCost, err error) {
	if err := g.Await(ctx, settle); err != nil {
		return c, err
	}
	primary := func() (time.Duration, error) { return 0, nil }
	if p, ok := s.(primaried); ok {
		pid, err := p.PrimaryPID(ctx)
		if err != nil {
			return c, err
		}
		primary = func() (time.Duration, error) { return CPU(pid) }
	}
	p0, err := primary()
	if err != nil {
		return c, err
	}
	from, err := edge(ctx, s, g)
	if err != nil {
		return c, err
	}
	if err := g.Await(ctx, window); err != nil {
		return c, err
	}
	p1, err := primary()
	if err != nil {
		return c, err
	}
	to, err := edge(ctx, s, g)
	if err != nil {
		return c, err
	}
	took := time.Duration(to.at - from.at)
	pct := func(d time.Duration) float64 { return 100 * d.Seconds() / took.Seconds() }
	return IdleCost{
		Seconds: took.Seconds(), Servers: pct(grown(from.servers, to.servers)), Primary: pct(p1 - p0),
		Clients: pct(grown(from.client, to.client)), Ops: float64(to.ops["total"]-from.ops["total"]) / took.Seconds(),
	}, nil
}
