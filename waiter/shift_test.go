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
			b.w.Wait("x", since)
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
			b.w.Wait(name, since)
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
		b.w.Wait("x", since)
		b.w.Wait("x", since)
		b.streaming()
		b.w.Leave("x")
		time.Sleep(linger + 2*recheck)
		b.settle("x", held)
		b.requireTold("x", waits, waiter.FromEvent, time.Millisecond)
	})
}

// TestStarvingStreamMakesItPoll: in a pool of one connection the stream leaves none for the reads.
func TestStarvingStreamMakesItPoll(t *testing.T) {
	bubble(t, func(b *bed) {
		held, waits, since := b.hold("x")
		began := time.Now()
		remove := b.Hook(memstore.Before, memstore.OpSourceViews, func(ctx context.Context, name string) error {
			if b.Taps() == 0 {
				return nil
			}
			return memstore.Hang(ctx, name)
		})
		b.w.Wait("x", since)
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
		b.w.Wait("x", since)
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
			b.w.Wait(fmt.Sprint(i), b.clk.Now())
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
		b.w.Wait("x", since)
		b.streaming()
		b.w.Close()
		b.w.Close()
		require.Zero(b.t, b.Taps())
		said := len(b.notices("x"))
		b.w.Wait("y", since)
		b.w.Leave("x")
		time.Sleep(time.Minute)
		require.Len(b.t, b.notices("x"), said)
		require.Empty(b.t, b.notices("y"))
	})
}
