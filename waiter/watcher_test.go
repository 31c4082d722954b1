package waiter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/waiter"
)

func TestEventWakes(t *testing.T) {
	bubble(t, func(b *bed) {
		held, waits, since := b.hold("x")
		b.w.Wait("x", since, 1, 1)
		b.streaming()
		b.settle("x", held)
		b.requireTold("x", waits, waiter.FromEvent, time.Millisecond)
		last := b.notices("x")[len(b.notices("x"))-1]
		require.Equal(b.t, held.Hi, last.View.Settled)
		require.EqualValues(b.t, 1, b.w.Counts().Events.Load())
		require.EqualValues(b.t, 1, b.w.Counts().StreamsOpened.Load())
	})
}

// TestSafeOpening: the point in time is taken first, then the stream is opened there, then the locks are read in the
// same session, and only then events are handed out.
func TestSafeOpening(t *testing.T) {
	bubble(t, func(b *bed) {
		_, _, since := b.hold("x")
		b.w.Wait("x", since, 1, 1)
		b.streaming()
		require.Equal(b.t, []memstore.Op{memstore.OpBegin, memstore.OpOpen, memstore.OpOpeningViews, memstore.OpNext}, b.order())
	})
}

// TestOpeningMissesNothing: the release happens at each step of the opening. The store's opening shows the oldest state
// that is allowed.
func TestOpeningMissesNothing(t *testing.T) {
	for _, op := range []memstore.Op{memstore.OpBegin, memstore.OpOpen, memstore.OpOpeningViews, memstore.OpNext} {
		for point, when := range map[memstore.Point]string{memstore.Before: "before", memstore.After: "after"} {
			t.Run(when+" "+string(op), func(t *testing.T) {
				bubble(t, func(b *bed) {
					held, waits, since := b.hold("x")
					done := false
					b.Hook(point, op, func(context.Context, string) error {
						if !done {
							done = true
							b.settle("x", held)
						}
						return nil
					})
					b.w.Wait("x", since, 1, 1)
					synctest.Wait()
					if op == memstore.OpNext && point == memstore.After {
						time.Sleep(await) // the first Next is empty
						synctest.Wait()
					}
					from, ok := b.told("x", waits)
					require.True(b.t, ok)
					if op == memstore.OpBegin && point == memstore.Before {
						require.Equal(b.t, waiter.FromOpening, from)
					} else {
						require.Equal(b.t, waiter.FromEvent, from)
					}
				}, func(c *waiter.Config) { c.Recheck = time.Hour }) // no net below
			})
		}
	}
}

// TestCatchUp: a lock that begins to be waited for while the stream is being opened is read once if its number was asked
// for before the opening began, and otherwise the stream covers it.
func TestCatchUp(t *testing.T) {
	bubble(t, func(b *bed) {
		_, _, since := b.hold("x")
		held, waits, sinceY := b.hold("y")
		b.settle("y", held) // nobody will see an event of this
		time.Sleep(time.Millisecond)
		gate := memstore.NewGate()
		b.Hook(memstore.After, memstore.OpOpeningViews, gate.Pass)
		b.w.Wait("x", since, 1, 1)
		<-gate.Reached()
		b.w.Wait("y", sinceY, 1, 1) // too late for the read of the opening
		b.requireTold("y", waits, waiter.FromCatchUp, time.Millisecond)
		gate.Open()
		b.streaming()

		reads := b.Calls(memstore.OpSourceViews)
		time.Sleep(time.Millisecond)
		held, waits, since = b.hold("z")
		b.w.Wait("z", since, 1, 1)
		synctest.Wait()
		require.Equal(b.t, reads, b.Calls(memstore.OpSourceViews), "asked for after the opening: no read")
		b.settle("z", held)
		b.requireTold("z", waits, waiter.FromEvent, time.Millisecond)
	})
}

// TestAnEventOutOfOrderIsEnough: the frontier has moved and settled has not.
func TestAnEventOutOfOrderIsEnough(t *testing.T) {
	bubble(t, func(b *bed) {
		shape := queue.Shape{Kind: "pool", Permits: 2}
		q := b.srv.Client().Queue()
		var places []queue.Place
		since := b.clk.Now()
		for i := range int64(3) {
			p, err := q.Enqueue(b.ctx, "x", shape, queue.Arrival{Mark: i, Units: 1})
			require.NoError(b.t, err)
			places = append(places, p)
		}
		b.w.Wait("x", since, 1, 1)
		b.streaming()
		b.settle("x", places[1]) // out of order
		b.requireTold("x", places[2], waiter.FromEvent, time.Millisecond)
		require.EqualValues(b.t, 1, b.w.Counts().Events.Load())
	})
}

func TestRecheckDeliversWhatTheStreamDropped(t *testing.T) {
	bubble(t, func(b *bed) {
		held, waits, since := b.hold("x")
		b.Deliver(func(waiter.Event) int { return 0 })
		b.w.Wait("x", since, 1, 1)
		b.streaming()
		b.settle("x", held)
		b.requireTold("x", waits, waiter.FromRecheck, recheck*5/4+time.Millisecond)
		require.EqualValues(b.t, 1, b.w.Counts().StreamsOpened.Load(), "a stream that says nothing is not known to be bad")
	})
}

func TestEventsMayComeTwice(t *testing.T) {
	bubble(t, func(b *bed) {
		held, waits, since := b.hold("x")
		b.Deliver(func(waiter.Event) int { return 2 })
		b.w.Wait("x", since, 1, 1)
		b.streaming()
		b.settle("x", held)
		b.requireTold("x", waits, waiter.FromEvent, time.Millisecond)
		require.EqualValues(b.t, 2, b.w.Counts().Events.Load())
	})
}

func TestMissingDocuments(t *testing.T) {
	bubble(t, func(b *bed) {
		_, _, since := b.hold("x")
		b.w.Wait("x", since, 1, 1)
		b.w.Wait("never made", since, 1, 1)
		b.streaming()
		require.True(b.t, b.notices("never made")[0].Missing)
		require.False(b.t, b.notices("x")[0].Missing)
		b.srv.DropLock("x")
		synctest.Wait()
		last := b.notices("x")[1]
		require.True(b.t, last.Missing)
		require.Equal(b.t, waiter.FromEvent, last.Origin)
	})
}

var errStream = errors.New("ChangeStreamHistoryLost")

// TestStreamErrorsReopenWithBackOff: at once the first time, then at most once a second, and each opening reads again.
func TestStreamErrorsReopenWithBackOff(t *testing.T) {
	bubble(t, func(b *bed) {
		_, _, since := b.hold("x")
		var at []time.Duration
		began := time.Now()
		b.Hook(memstore.Before, memstore.OpBegin, func(context.Context, string) error {
			at = append(at, time.Since(began))
			return nil
		})
		b.Hook(memstore.Before, memstore.OpNext, func(context.Context, string) error { return errStream })
		b.w.Wait("x", since, 1, 1)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Zero(b.t, at[1], "at once the first time")
		pauses := []time.Duration{}
		for i := 2; i < len(at); i++ {
			pauses = append(pauses, at[i]-at[i-1])
		}
		for i, pause := range pauses {
			require.GreaterOrEqual(b.t, pause, time.Second, "%v", pauses)
			require.LessOrEqual(b.t, pause, 15*time.Second)
			if i >= 4 {
				require.GreaterOrEqual(b.t, pause, 7*time.Second, "they grow")
			}
		}
		require.Greater(b.t, len(at), 8, "and it never gives up")
		require.Equal(b.t, len(at), b.Calls(memstore.OpOpeningViews))
		require.EqualValues(b.t, len(at), b.w.Counts().StreamsFailed.Load())
	})
}

func TestReopeningReads(t *testing.T) {
	bubble(t, func(b *bed) {
		held, waits, since := b.hold("x")
		b.Deliver(func(waiter.Event) int { return 0 })
		b.w.Wait("x", since, 1, 1)
		b.streaming()
		b.settle("x", held)
		b.KillStreams(errStream)
		b.requireTold("x", waits, waiter.FromOpening, time.Millisecond)
	})
}

// TestALongLifeForgivesFailures: after a stream that lived, the next is opened at once again.
func TestALongLifeForgivesFailures(t *testing.T) {
	bubble(t, func(b *bed) {
		_, _, since := b.hold("x")
		b.w.Wait("x", since, 1, 1)
		for range 3 {
			b.streaming()
			time.Sleep(15 * time.Second)
			before := b.Calls(memstore.OpBegin)
			b.KillStreams(errStream)
			synctest.Wait()
			require.Equal(b.t, before+1, b.Calls(memstore.OpBegin))
		}
	})
}

func TestReadsAreFrequentWhileTheStreamIsDown(t *testing.T) {
	bubble(t, func(b *bed) {
		b.Hook(memstore.Before, memstore.OpBegin, memstore.Fail(1000, memstore.ErrNoReply))
		held, waits, since := b.hold("x")
		b.w.Wait("x", since, 1, 1)
		time.Sleep(10 * time.Second)
		b.settle("x", held)
		b.requireTold("x", waits, waiter.FromRecheck, 350*time.Millisecond)
	})
}

func TestCollectionDropped(t *testing.T) {
	bubble(t, func(b *bed) {
		_, _, since := b.hold("x")
		b.w.Wait("x", since, 1, 1)
		b.streaming()
		b.srv.DropLocks()
		b.streaming()
		last := b.notices("x")[len(b.notices("x"))-1]
		require.True(b.t, last.Missing)
		time.Sleep(time.Millisecond)
		held, waits, _ := b.hold("x")
		b.settle("x", held)
		b.requireTold("x", waits, waiter.FromEvent, time.Millisecond)
	})
}

// TestWatchdog: a server that is frozen says nothing, not even an error.
func TestWatchdog(t *testing.T) {
	bubble(t, func(b *bed) {
		held, waits, since := b.hold("x")
		remove := b.Hook(memstore.Before, memstore.OpNext, memstore.Hang)
		b.w.Wait("x", since, 1, 1)
		synctest.Wait()
		remove()
		time.Sleep(await + opTimeout - time.Millisecond)
		synctest.Wait()
		require.Equal(b.t, 1, b.Calls(memstore.OpBegin))
		time.Sleep(time.Millisecond)
		b.streaming()
		require.Equal(b.t, 2, b.Calls(memstore.OpBegin))
		b.settle("x", held)
		b.requireTold("x", waits, waiter.FromEvent, time.Millisecond)
	})
}

func TestOpeningThatHangs(t *testing.T) {
	for _, op := range []memstore.Op{memstore.OpBegin, memstore.OpOpen, memstore.OpOpeningViews} {
		t.Run(string(op), func(t *testing.T) {
			bubble(t, func(b *bed) {
				_, _, since := b.hold("x")
				remove := b.Hook(memstore.Before, op, memstore.Hang)
				b.w.Wait("x", since, 1, 1)
				synctest.Wait()
				remove()
				time.Sleep(2*opTimeout + time.Millisecond)
				b.streaming()
				require.Equal(b.t, 2, b.Calls(memstore.OpBegin))
			})
		})
	}
}
