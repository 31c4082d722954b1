package fair

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock"
)

// memory is bytes for each waiter: of live heap objects and stacks, and of heap spans and stacks in use.
type memory struct {
	Bare, Waiter           int64 // live: of a goroutine in a select, and of one in Lock
	BareInUse, WaiterInUse int64
	Heap                   int64 // live heap alone, beyond the bare one's
}

// crowd is many waiters of one process.
type crowd struct {
	cancel context.CancelFunc
	gone   sync.WaitGroup
}

type use struct{ live, inUse, heap int64 }

// measureUse reads memory when the collector has nothing left to do. A run of it halves stacks that are too large.
func measureUse() use {
	for range 5 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return use{
		live: int64(m.HeapAlloc + m.StackInuse), inUse: int64(m.HeapInuse + m.StackInuse), heap: int64(m.HeapAlloc),
	}
}

// gather makes n goroutines wait for a lock and returns when all are in line and the process is quiet. holder is the token of whoever
// holds it.
func (c *crowd) gather(ctx context.Context, m *fairlock.Manager, lock string, n int, holder int64) (memory, error) {
	bare(ctx, n, func() {}) // makes the descriptors
	without := measureUse()
	var with use
	bare(ctx, n, func() { with = measureUse() })
	bareUse := use{with.live - without.live, with.inUse - without.inUse, with.heap - without.heap}

	without = measureUse()
	ctx, c.cancel = context.WithCancel(ctx)
	var errs atomic.Int64
	for range n {
		c.gone.Go(func() {
			if _, err := m.Lock(ctx, lock); !errors.Is(err, context.Canceled) {
				errs.Add(1)
			}
		})
	}
	if err := quiet(ctx, m, lock, int64(n), holder); err != nil {
		return memory{}, err
	}
	with = measureUse()
	if k := errs.Load(); k != 0 {
		return memory{}, errors.New("waiters of the crowd came back while the lock was held")
	}
	each := int64(n)
	return memory{
		Bare: bareUse.live / each, Waiter: (with.live - without.live) / each,
		BareInUse: bareUse.inUse / each, WaiterInUse: (with.inUse - without.inUse) / each,
		Heap: (with.heap - without.heap - bareUse.heap) / each,
	}, nil
}

// bare calls during while n goroutines wait in a select, and returns when they have ended.
func bare(ctx context.Context, n int, during func()) {
	ctx, cancel := context.WithCancel(ctx)
	never := make(chan struct{})
	var here, gone sync.WaitGroup
	here.Add(n)
	for range n {
		gone.Go(func() {
			here.Done()
			select {
			case <-never:
			case <-ctx.Done():
			}
		})
	}
	here.Wait()
	during()
	cancel()
	gone.Wait()
}

// quiet waits until the database shows all n in line, and no ticket has been written for two seconds. There is no signal for that.
func quiet(ctx context.Context, m *fairlock.Manager, lock string, n, holder int64) error {
	const every, still = 250 * time.Millisecond, 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var written int64 = -1
	since := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("the crowd was not in line within a minute")
		}
		if now := m.Stats().TicketsWritten; now != written {
			written, since = now, time.Now()
		}
		if time.Since(since) < still {
			continue
		}
		info, err := m.Inspect(ctx, lock)
		if err != nil {
			return err
		}
		if info.LastToken-holder == n {
			return nil
		}
		since = time.Now()
	}
}

// leave ends the crowd, if there is one.
func (c *crowd) leave() {
	if c.cancel != nil {
		c.cancel()
		c.gone.Wait()
	}
}
