package run

import (
	"context"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/bench/contend"
	"github.com/fairlock/fairlock/bench/stats"
)

// Spec is one run of the matrix.
type Spec struct {
	Contestant   Contestant
	N            int           // contenders
	Hold         time.Duration // critical section
	Warm, Window time.Duration
	Floors       int // measurements of the floor before and as many after; 0: none
}

// WarmFor is a warm-up for n contenders: the time to open n streams and to get everybody served a few times, roughly.
func WarmFor(n int) time.Duration {
	return 1500*time.Millisecond + time.Duration(n)*30*time.Millisecond
}

// WindowFor is the window of a run of n contenders, of which few need window: many need twice that to have a turn each.
func WindowFor(n int, window time.Duration) time.Duration {
	if n >= 128 {
		return 2 * window
	}
	return window
}

// Row is the outcome of one run.
type Row struct {
	Kind   string  `json:"kind"`
	Server string  `json:"server"`
	N      int     `json:"contenders"`
	HoldMS float64 `json:"hold_ms"`
	Window float64 `json:"window_s"`

	stats.Analysis
	Floor stats.Spread `json:"floor"` // N is 0 for a server that has none

	// Each acquisition.
	ServerOps float64            `json:"server_ops_per_acquisition"`
	Commands  float64            `json:"commands_per_acquisition"` // sent by contenders; 0: they do not count
	ServerCPU float64            `json:"server_cpu_ms_per_acquisition"`
	ClientCPU float64            `json:"client_cpu_ms_per_acquisition"`
	Other     map[string]float64 `json:"other_per_acquisition,omitempty"`

	Busy float64 `json:"machine_cpu_cores"` // servers and contenders together

	// Order is the first grants' ranks by arrival.
	Order stats.Ranks `json:"order_of_grants,omitempty"`

	Records [][]contend.Record `json:"-"`
	In      stats.Window       `json:"-"`
}

// PerFloor is how many acquisitions there were in the time of one floor.
func (r Row) PerFloor() float64 { return r.PerSecond * r.Floor.P50 / 1000 }

// HandOffP50 and HandOffP99 are hand-offs to another contender over the floor; NaN if there were none, or no floor.
func (r Row) HandOffP50() float64 { return measured(r.ToAnother.P50, r.Floor.P50, r.ToAnother.N) }

// HandOffP99 is HandOffP50 for p99.
func (r Row) HandOffP99() float64 { return measured(r.ToAnother.P99, r.Floor.P99, r.ToAnother.N) }

// LongestWait is the longest wait over the median; one that was not over counts as long as it had lasted. NaN if none was over.
func (r Row) LongestWait() float64 { return measured(max(r.Wait.Max, r.Oldest), r.Wait.P50, r.Wait.N) }

// measured is a/b if there were n measurements, more than none.
func measured(a, b float64, n int) float64 {
	if n == 0 || b == 0 {
		return math.NaN()
	}
	return a / b
}

// Wakeups are change events and reads of each acquisition of fairlock.
func (r Row) Wakeups() float64 { return r.Other["events"] + r.Other["reads"] }

// mostOrdered is how many grants Order has.
const mostOrdered = 300

var locks atomic.Int64

// LockName is a name that no other run of this process uses.
func LockName() string { return fmt.Sprintf("bench-%d-%d", os.Getpid(), locks.Add(1)) }

// Measure does one run.
func Measure(ctx context.Context, s Server, spec Spec) (Row, error) {
	row := Row{
		Kind: spec.Contestant.Kind, Server: s.Name(), N: spec.N,
		HoldMS: stats.Millis(spec.Hold.Nanoseconds()), Window: spec.Window.Seconds(),
	}
	g, err := StartGroup(ctx, spec.Contestant, s.Target(), LockName(), spec.N, spec.Hold)
	if err != nil {
		return row, err
	}
	defer g.Kill()
	before, err := floors(ctx, s, spec.Floors)
	if err != nil {
		return row, err
	}
	g.Go()
	if err := g.Await(ctx, spec.Warm); err != nil {
		return row, err
	}
	from, err := edge(ctx, s, g)
	if err != nil {
		return row, err
	}
	if err := g.Await(ctx, spec.Window); err != nil {
		return row, err
	}
	to, err := edge(ctx, s, g)
	if err != nil {
		return row, err
	}
	records, totals, err := g.Stop(ctx)
	if err != nil {
		return row, err
	}
	after, err := floors(ctx, s, spec.Floors)
	if err != nil {
		return row, err
	}
	row.Floor = FloorOf(before, after)
	row.fill(records, totals, from, to)
	return row, nil
}

func floors(ctx context.Context, s Server, n int) ([]int64, error) {
	if n == 0 {
		return nil, nil
	}
	return Floors(ctx, s, n, 0)
}

// counters is what is read at an edge of the window.
type counters struct {
	at              int64
	ops             map[string]int64
	servers, client map[int]time.Duration
}

// edge reads all counters. The stamp is taken in the middle of it.
func edge(ctx context.Context, s Server, g *Group) (c counters, err error) {
	g.Mark()
	c.servers = CPUs(s.PIDs())
	c.at = contend.Stamp()
	c.client = CPUs(g.PIDs())
	c.ops, err = s.Ops(ctx)
	return c, err
}

func (r *Row) fill(records [][]contend.Record, totals []contend.Totals, from, to counters) {
	r.Records, r.In = records, stats.Window{From: from.at, To: to.at}
	r.Analysis = stats.Analyse(records, r.In)
	r.Order = stats.FirstRanks(records, r.In, mostOrdered)
	grants := float64(r.Grants)
	servers, client := grown(from.servers, to.servers), grown(from.client, to.client)
	r.ServerOps = stats.Ratio(float64(to.ops["total"]-from.ops["total"]), grants)
	r.ServerCPU = stats.Ratio(stats.Millis(servers.Nanoseconds()), grants)
	r.ClientCPU = stats.Ratio(stats.Millis(client.Nanoseconds()), grants)
	r.Busy = stats.Ratio((servers + client).Seconds(), time.Duration(to.at-from.at).Seconds())

	var commands, counted float64
	other := map[string]float64{}
	for i, t := range totals {
		commands += float64(t.Commands)
		for name, n := range t.Other {
			other[name] += float64(n)
		}
		for _, rec := range records[i] {
			if rec.Granted != 0 && (!t.Marked || r.In.From <= rec.Granted && rec.Granted < r.In.To) {
				counted++
			}
		}
	}
	r.Commands = stats.Ratio(commands, counted)
	r.Other = map[string]float64{}
	for name, n := range other {
		r.Other[name] = stats.Ratio(n, counted)
	}
}

// Writes are the enqueues and settles of each acquisition of fairlock, as commands on the wire.
func (r Row) Writes() float64 { return r.Other["writes_locks"] }
