package fair

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/bench/run"
	"github.com/fairlock/fairlock/bench/stats"
)

// Against is a distribution beside that of the floor.
type Against struct {
	Got   stats.Spread `json:"got"`
	Floor stats.Spread `json:"floor"`
}

// P50 is the ratio of the medians.
func (a Against) P50() float64 { return stats.Ratio(a.Got.P50, a.Floor.P50) }

// P99 is the ratio of the 99th percentiles.
func (a Against) P99() float64 { return stats.Ratio(a.Got.P99, a.Floor.P99) }

// warm is how many rounds of a measurement are thrown away.
const warm = 30

// Pair measures rounds of Lock and Unlock without contention.
func Pair(ctx context.Context, m *run.Mongo, rounds int) (a Against, err error) {
	w, err := startWorker(ctx, m.Target(), run.LockName(), 0)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	floor, end, err := m.Floor(ctx)
	if err != nil {
		return a, err
	}
	defer end()
	var pairs, floors []int64
	for i := range warm + rounds {
		rep, err := w.ask(ctx, order{Op: "pair"})
		if err != nil {
			return a, err
		}
		took, err := timed(ctx, floor)
		if err != nil {
			return a, err
		}
		if i >= warm {
			pairs, floors = append(pairs, rep.Took.Nanoseconds()), append(floors, took)
		}
	}
	return Against{Got: stats.Of(pairs), Floor: stats.Of(floors)}, nil
}

func timed(ctx context.Context, op func(context.Context) error) (int64, error) {
	began := time.Now()
	err := op(ctx)
	return time.Since(began).Nanoseconds(), err
}

// HandOff measures rounds of a hand-off between two processes, with a pause before each, as before each floor. With permits above 0 the lock is a
// semaphore, of which a third process holds all permits but one.
func HandOff(ctx context.Context, m *run.Mongo, permits int64, rounds int, pause time.Duration) (a Against, err error) {
	lock := run.LockName()
	var ws [3]*remote
	for i := range ws {
		if ws[i], err = startWorker(ctx, m.Target(), lock, permits); err != nil {
			return a, err
		}
		defer func() { err = errors.Join(err, ws[i].end()) }()
	}
	if permits > 1 {
		if err := ws[2].tell(order{Op: "lock", N: int(permits - 1)}); err != nil {
			return a, err
		}
		if _, err := ws[2].await(ctx, "locked"); err != nil {
			return a, err
		}
	}
	floor, end, err := m.Floor(ctx)
	if err != nil {
		return a, err
	}
	defer end()
	holder, next := ws[0], ws[1]
	if err := holder.tell(order{Op: "lock"}); err != nil {
		return a, err
	}
	last, err := holder.await(ctx, "locked")
	if err != nil {
		return a, err
	}
	var hands, floors []int64
	for i := range warm + rounds {
		took, grant, err := handOver(ctx, holder, next, pause)
		if err != nil {
			return a, err
		}
		if grant.Token <= last.Token {
			return a, fmt.Errorf("fair: token %d after %d", grant.Token, last.Token)
		}
		last, holder, next = grant, next, holder
		if err := run.Pause(ctx, pause); err != nil {
			return a, err
		}
		op, err := timed(ctx, floor)
		if err != nil {
			return a, err
		}
		if i >= warm {
			hands, floors = append(hands, took), append(floors, op)
		}
	}
	if _, err := holder.ask(ctx, order{Op: "unlock"}); err != nil {
		return a, err
	}
	if permits > 1 {
		if _, err := ws[2].ask(ctx, order{Op: "unlock"}); err != nil {
			return a, err
		}
	}
	return Against{Got: stats.Of(hands), Floor: stats.Of(floors)}, nil
}

func handOver(ctx context.Context, from, to *remote, pause time.Duration) (took int64, grant report, err error) {
	if err := to.tell(order{Op: "lock"}); err != nil {
		return 0, grant, err
	}
	if _, err := to.await(ctx, "queued"); err != nil {
		return 0, grant, err
	}
	if err := run.Pause(ctx, pause); err != nil {
		return 0, grant, err
	}
	gone, err := from.ask(ctx, order{Op: "unlock"})
	if err != nil {
		return 0, grant, err
	}
	grant, err = to.await(ctx, "locked")
	if err == nil && grant.At < gone.At {
		err = fmt.Errorf("fair: granted %d ns before the Unlock", gone.At-grant.At)
	}
	return grant.At - gone.At, grant, err
}

// Combining is many callers of one process who take one lock in turn.
type Combining struct {
	Goroutines int          `json:"goroutines"`
	PerSecond  float64      `json:"acquisitions_per_s"`
	Floor      stats.Spread `json:"floor"`
}

// PerFloor is the acquisitions in the time of one floor.
func (c Combining) PerFloor() float64 { return c.PerSecond * c.Floor.P50 / 1000 }

// Combine measures n goroutines for d.
func Combine(ctx context.Context, m *run.Mongo, n int, d time.Duration) (c Combining, err error) {
	w, err := startWorker(ctx, m.Target(), run.LockName(), 0)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	const floors = 150
	before, err := run.Floors(ctx, m, floors, 0)
	if err != nil {
		return c, err
	}
	var rep report
	for _, d := range []time.Duration{time.Second, d} { // the first warms up
		if rep, err = w.ask(ctx, order{Op: "combine", N: n, For: d}); err != nil {
			return c, err
		}
	}
	after, err := run.Floors(ctx, m, floors, 0)
	if err != nil {
		return c, err
	}
	return Combining{Goroutines: n, PerSecond: float64(rep.N) / rep.Took.Seconds(), Floor: run.FloorOf(before, after)}, nil
}

// Crowded is many callers of one process who wait for a lock that another process holds.
type Crowded struct {
	Waiters     int     `json:"waiters"`
	CPU         float64 `json:"cpu_pct"` // of a core
	Ops         float64 `json:"server_ops_per_s"`
	OpsWithout  float64 `json:"server_ops_per_s_without"` // with the same two processes connected, and the lock held
	Bytes       int64   `json:"bytes_per_waiter"`         // beyond its goroutine: heap objects and stack
	BytesInUse  int64   `json:"bytes_in_use_per_waiter"`  // the same by spans
	HeapBytes   int64   `json:"heap_bytes_per_waiter"`    // heap objects alone
	BareBytes   int64   `json:"bytes_per_bare_goroutine"`
	WindowInSec float64 `json:"window_s"`
}

// Crowd measures n waiters for d.
func Crowd(ctx context.Context, m *run.Mongo, n int, d time.Duration) (c Crowded, err error) {
	lock := run.LockName()
	holder, err := startWorker(ctx, m.Target(), lock, 0)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, holder.end()) }()
	w, err := startWorker(ctx, m.Target(), lock, 0)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, w.end()) }() // first, else its waiters would be granted one by one
	if err := holder.tell(order{Op: "lock"}); err != nil {
		return c, err
	}
	held, err := holder.await(ctx, "locked")
	if err != nil {
		return c, err
	}
	without, _, err := cost(ctx, m, w, d/2)
	if err != nil {
		return c, err
	}
	rep, err := w.ask(ctx, order{Op: "crowd", N: n, Holder: held.Token})
	if err != nil {
		return c, err
	}
	ops, used, err := cost(ctx, m, w, d)
	if err != nil {
		return c, err
	}
	mem := rep.Memory
	return Crowded{
		Waiters: n, CPU: used, Ops: ops, OpsWithout: without, Bytes: mem.Waiter - mem.Bare, BytesInUse: mem.WaiterInUse - mem.BareInUse,
		HeapBytes: mem.Heap, BareBytes: mem.Bare, WindowInSec: d.Seconds(),
	}, nil
}

// cost is what the server does a second, and the CPU of a worker in percent of a core, over a time.
func cost(ctx context.Context, m *run.Mongo, w *remote, d time.Duration) (ops, cpu float64, err error) {
	before, err := m.Ops(ctx)
	if err != nil {
		return 0, 0, err
	}
	from, err := w.ask(ctx, order{Op: "cpu"})
	if err != nil {
		return 0, 0, err
	}
	if err := run.Pause(ctx, d); err != nil {
		return 0, 0, err
	}
	to, err := w.ask(ctx, order{Op: "cpu"})
	if err != nil {
		return 0, 0, err
	}
	after, err := m.Ops(ctx)
	return float64(after["total"]-before["total"]) / d.Seconds(), 100 * (to.Took - from.Took).Seconds() / d.Seconds(), err
}
