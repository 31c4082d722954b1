package reaper_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
)

func TestSweepRunsAndClearsWhatNobodyWaitsBehind(t *testing.T) {
	bubble(t, func(b *bed) {
		b.begin("dead")
		b.place("held by the dead", "dead")
		b.enqueue("orphans", 3)
		garbage := b.place("garbage", "dead")
		_, err := b.Queue().Settle(b.ctx, "garbage", []queue.Range{garbage.Range}, 0)
		require.NoError(b.t, err)
		require.NoError(b.t, b.ticket("no document", queue.Place{Range: queue.Range{Lo: 1, Hi: 2}}, "vanished"))
		for i := range 5 {
			b.place(fmt.Sprint("many ", i), "dead")
		}
		r := b.reaperWith(func() []reaper.Target { return nil }, func(context.Context) (bool, []reaper.Target) { return true, nil })
		ctx, stop := context.WithCancel(b.ctx)
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		time.Sleep(6 * ttl)
		require.Len(b.t, b.srv.Tickets(), 1)
		require.Equal(b.t, "vanished", b.srv.Tickets()[0].Session, "of its lease nothing is known, so ten of ours must pass")
		time.Sleep(8 * ttl)
		require.Empty(b.t, b.srv.Unrest())
		require.Greater(b.t, r.Counts().Sweeps.Load(), int64(10))
		stop()
		<-done
	})
}

func TestWithoutTheRightItWatchesTheSweeper(t *testing.T) {
	bubble(t, func(b *bed) {
		b.begin("dead")
		p := b.place("sweep", "dead")
		b.place("not on the way", "dead too")
		r := b.reaperWith(nil, func(context.Context) (bool, []reaper.Target) {
			return false, []reaper.Target{{Name: "sweep", Below: 1<<63 - 1}}
		})
		r.SweepOnce(b.ctx)
		time.Sleep(ttl + time.Millisecond)
		r.SweepOnce(b.ctx)
		require.True(b.t, b.settled("sweep", p))
		require.Zero(b.t, b.Calls(memstore.OpUncleared))
		require.Zero(b.t, r.Counts().Sweeps.Load())
	})
}

func TestSweepLeavesTheLivingAlone(t *testing.T) {
	bubble(t, func(b *bed) {
		b.lease()
		p := b.place(name, "s")
		r := b.reaperWith(nil, func(context.Context) (bool, []reaper.Target) { return true, nil })
		for range 30 {
			r.SweepOnce(b.ctx)
			time.Sleep(ttl / 2)
		}
		require.False(b.t, b.settled(name, p))
		require.False(b.t, b.isEnded("s"))
		require.Len(b.t, b.srv.Tickets(), 1)
	})
}

// run runs a reaper for the targets until the test ends.
func (b *bed) run(targets func() []reaper.Target) *reaper.Reaper {
	r := b.reaperWith(targets, func(context.Context) (bool, []reaper.Target) { return false, nil })
	ctx, stop := context.WithCancel(b.ctx)
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	b.t.Cleanup(func() { stop(); <-done })
	return r
}

// TestACrashOfManyCostsOneLease (I6): dead processes and orphans in one queue go together.
func TestACrashOfManyCostsOneLease(t *testing.T) {
	bubble(t, func(b *bed) {
		var last queue.Place
		for i := range 50 {
			id := fmt.Sprint("dead ", i)
			b.begin(id)
			last = b.place(name, id)
			b.enqueue(name, 1)
		}
		mine := b.enqueue(name, 1)
		began := b.clk.Now()
		r := b.run(func() []reaper.Target {
			if b.settled(name, last) {
				return nil
			}
			return []reaper.Target{{Name: name, Below: mine.Lo, Ahead: 100}}
		})
		for !b.admitted(mine) {
			require.Less(b.t, b.clk.Now().Sub(began), 2*ttl, "%+v", r.Counts())
			time.Sleep(10 * time.Millisecond)
		}
		require.Less(b.t, b.clk.Now().Sub(began), ttl+2*r.Tick())
		require.LessOrEqual(b.t, b.Calls(memstore.OpSettle), 3)
	})
}

func (b *bed) admitted(p queue.Place) bool {
	v, _ := b.srv.Lock(name)
	return v.Admits(p.Range)
}

func TestLooksOfThoseFarBackAreRare(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.place(name, "s")
		b.lease()
		var ahead atomic.Int64
		r := b.run(func() []reaper.Target { return []reaper.Target{{Name: name, Below: p.Hi + 1, Ahead: ahead.Load()}} })
		time.Sleep(10 * ttl)
		near := r.Counts().Looks.Load()
		require.InDelta(b.t, 100, near, 15, "every tenth of a ttl")
		ahead.Store(1000)
		time.Sleep(10 * ttl)
		require.InDelta(b.t, 10, r.Counts().Looks.Load()-near, 5, "every ttl at the least")
	})
}

func TestNobodyWaitsNoCalls(t *testing.T) {
	bubble(t, func(b *bed) {
		b.begin("dead")
		b.place(name, "dead")
		before := b.Calls(memstore.OpView) + b.Calls(memstore.OpGetSessions) + b.Calls(memstore.OpTickets)
		b.run(func() []reaper.Target { return nil })
		time.Sleep(20 * ttl)
		require.Equal(b.t, before, b.Calls(memstore.OpView)+b.Calls(memstore.OpGetSessions)+b.Calls(memstore.OpTickets))
	})
}

// TestNewTargetIsLookedAtWithinATick: also by a reaper that had nothing to look at for long.
func TestNewTargetIsLookedAtWithinATick(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.place(name, "s")
		b.lease()
		var wait atomic.Bool
		r := b.run(func() []reaper.Target {
			if wait.Load() {
				return []reaper.Target{behind(p)}
			}
			return nil
		})
		time.Sleep(20*ttl + time.Millisecond)
		wait.Store(true)
		time.Sleep(r.Tick())
		require.EqualValues(b.t, 1, r.Counts().Looks.Load())
	})
}
