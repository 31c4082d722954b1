package waiter_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/waiter"
)

// TestRetireAndRestart: the goroutines end Linger after the last waiter, and start with the next.
func TestRetireAndRestart(t *testing.T) {
	bubble(t, func(b *bed) {
		for range 3 {
			held, waits, since := b.hold("x")
			b.w.Wait("x", since, 1, 1)
			b.streaming()
			b.settle("x", held)
			b.requireTold("x", waits, waiter.FromEvent, time.Millisecond)
			b.w.Leave("x")
			time.Sleep(linger - time.Millisecond)
			require.True(b.t, b.w.Streaming(), "it lingers")
			time.Sleep(recheck*5/4 + 2*time.Millisecond)
			require.False(b.t, b.w.Streaming())
			synctest.Wait()
			require.Zero(b.t, b.Taps())
			b.settle("x", waits)
		}
		calls := b.Calls(memstore.OpSourceViews)
		time.Sleep(time.Minute)
		require.Equal(b.t, calls, b.Calls(memstore.OpSourceViews), "at rest it makes no call")
	})
}

// TestNoWaiterIsLostAroundRetirement: waits that begin at any moment around the end of a shift.
func TestNoWaiterIsLostAroundRetirement(t *testing.T) {
	bubble(t, func(b *bed) {
		for i := range 60 {
			name := fmt.Sprint("x", i)
			held, waits, since := b.hold(name)
			b.w.Wait(name, since, 1, 1)
			b.settle(name, held)
			synctest.Wait()
			from, ok := b.told(name, waits)
			require.True(b.t, ok, "told at once, by the opening, by an event or by a catch-up")
			require.NotEqual(b.t, waiter.FromRecheck, from)
			b.w.Leave(name)
			time.Sleep(linger + time.Duration(i)*recheck/48)
		}
	})
}

// TestEachWaitNeedsItsLeave: the lock is watched until all have left.
func TestEachWaitNeedsItsLeave(t *testing.T) {
	bubble(t, func(b *bed) {
		held, waits, since := b.hold("x")
		b.w.Wait("x", since, 1, 1)
		b.w.Wait("x", since, 1, 1)
		b.streaming()
		b.w.Leave("x")
		time.Sleep(linger + 2*recheck)
		b.settle("x", held)
		b.requireTold("x", waits, waiter.FromEvent, time.Millisecond)
	})
}

// poolOfOne makes reads and the stream's calls share one connection, first come first served.
func (b *bed) poolOfOne() (remove func()) {
	conn := make(chan struct{}, 1)
	take := func(ctx context.Context, _ string) error {
		select {
		case conn <- struct{}{}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	give := func(context.Context, string) error { <-conn; return nil }
	var removes []func()
	for _, op := range []memstore.Op{memstore.OpNext, memstore.OpSourceViews} {
		removes = append(removes, b.Hook(memstore.Before, op, take), b.Hook(memstore.After, op, give))
	}
	return func() {
		for _, r := range removes {
			r()
		}
	}
}

// TestSlowServerIsNoStarvingStream: reads take long, whatever the stream does.
func TestSlowServerIsNoStarvingStream(t *testing.T) {
	bubble(t, func(b *bed) {
		_, _, since := b.hold("x")
		b.Hook(memstore.Before, memstore.OpSourceViews, func(ctx context.Context, _ string) error {
			select {
			case <-time.After(await * 2 / 3):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		b.w.Wait("x", since, 1, 1)
		time.Sleep(time.Minute)
		require.True(b.t, b.w.Streaming())
		require.EqualValues(b.t, 1, b.w.Counts().StreamsOpened.Load())
	})
}

// TestStarvingStreamMakesItPoll: in a pool of one connection the stream leaves none for the reads.
func TestStarvingStreamMakesItPoll(t *testing.T) {
	bubble(t, func(b *bed) {
		held, waits, since := b.hold("x")
		began := time.Now()
		remove := b.poolOfOne()
		b.w.Wait("x", since, 1, 1)
		time.Sleep(3 * await)
		synctest.Wait()
		require.Zero(b.t, b.Taps(), "the stream is closed")
		require.False(b.t, b.w.Streaming())
		b.settle("x", held)
		b.requireTold("x", waits, waiter.FromPoll, recheck*5/4+time.Millisecond) // the check that was under way, then the poll
		reads := b.Calls(memstore.OpSourceViews)
		time.Sleep(10 * poll)
		require.InDelta(b.t, reads+10, b.Calls(memstore.OpSourceViews), 4)

		time.Sleep(time.Minute - time.Since(began))
		remove()
		time.Sleep(2 * time.Minute)
		require.True(b.t, b.w.Streaming(), "it tries again")
	})
}

func TestPollOnly(t *testing.T) {
	bubble(t, func(b *bed) {
		held, waits, since := b.hold("x")
		b.w.Wait("x", since, 1, 1)
		time.Sleep(10 * time.Second)
		b.settle("x", held)
		b.requireTold("x", waits, waiter.FromPoll, poll*5/4+time.Millisecond)
		require.Zero(b.t, b.Calls(memstore.OpBegin))
		require.False(b.t, b.w.Streaming())
		b.w.Leave("x")
		time.Sleep(linger + 2*poll)
		reads := b.Calls(memstore.OpSourceViews)
		time.Sleep(time.Minute)
		require.Equal(b.t, reads, b.Calls(memstore.OpSourceViews), "at rest it makes no call")
	}, func(c *waiter.Config) { c.PollOnly = true })
}

func TestManyLocksAreReadInPages(t *testing.T) {
	bubble(t, func(b *bed) {
		gate := memstore.NewGate()
		b.Hook(memstore.Before, memstore.OpBegin, gate.Pass)
		for i := range 2500 {
			b.w.Wait(fmt.Sprint(i), b.clk.Now(), 1, 1)
		}
		gate.Open()
		b.streaming()
		require.Equal(b.t, 3, b.Calls(memstore.OpOpeningViews))
	})
}

// TestClose waits for calls under way and is final.
func TestClose(t *testing.T) {
	bubble(t, func(b *bed) {
		_, _, since := b.hold("x")
		b.w.Wait("x", since, 1, 1)
		b.streaming()
		b.w.Close()
		b.w.Close()
		require.Zero(b.t, b.Taps())
		said := len(b.notices("x"))
		b.w.Wait("y", since, 1, 1)
		b.w.Leave("x")
		time.Sleep(time.Minute)
		require.Len(b.t, b.notices("x"), said)
		require.Empty(b.t, b.notices("y"))
	})
}

// TestIrrelevantEventsNarrowTheStream: in a process that waits for a lock that stands still, while others are passed on all the
// time, the server is asked to filter. A lock that the filter leaves out has the stream opened anew.
func TestIrrelevantEventsNarrowTheStream(t *testing.T) {
	bubble(t, func(b *bed) {
		xHeld, xWaits, since := b.hold("x")
		b.w.Wait("x", since, 1, 1)
		b.streaming()
		busy := func(n int) {
			for range n {
				held, waits, _ := b.hold("busy")
				b.settle("busy", held)
				b.settle("busy", waits)
				synctest.Wait()
			}
		}
		busy(250)
		require.EqualValues(b.t, 2, b.w.Counts().StreamsOpened.Load())
		heard := b.w.Counts().Events.Load()
		busy(100)
		require.Equal(b.t, heard, b.w.Counts().Events.Load(), "the server leaves them out")

		yHeld, yWaits, since := b.hold("y")
		b.w.Wait("y", since, 1, 1)
		synctest.Wait()
		require.EqualValues(b.t, 3, b.w.Counts().StreamsOpened.Load())
		b.settle("y", yHeld)
		b.requireTold("y", yWaits, waiter.FromEvent, time.Millisecond)
		b.settle("x", xHeld)
		b.requireTold("x", xWaits, waiter.FromEvent, time.Millisecond)
		require.Zero(b.t, b.w.Counts().StreamsFailed.Load())
		b.w.Leave("y")
		b.w.Wait("y", b.clk.Now(), 1, 1)
		synctest.Wait()
		require.EqualValues(b.t, 3, b.w.Counts().StreamsOpened.Load(), "it is still in the filter")
	})
}
