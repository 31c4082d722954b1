package waiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/clock"
)

// TestPaceInASimulatedQueue runs a queue in which each process knows nothing but its own reads, with pauses of up to 200 ms now and
// then, and bounds what dozing costs: the time that the lock is free while its next holder sleeps, how often a turn
// comes during a doze, and the reads.
func TestPaceInASimulatedQueue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hold        time.Duration
		free, slept float64 // of the time, of the grants
		reads       float64 // for each grant, or for each second and process, whichever is more
	}{
		{0, 0.25, 0.04, 10},
		{5 * time.Millisecond, 0.2, 0.02, 9},
		{20 * time.Millisecond, 0.1, 0.02, 12},
		{100 * time.Millisecond, 0.01, 0, 15},
		{time.Second, 0.001, 0, 1},
	} {
		for _, n := range []int{8, 32, 128, 256} {
			t.Run(fmt.Sprintf("%v held, %d processes", c.hold, n), func(t *testing.T) {
				t.Parallel()
				q := newSimQueue(n, 1, c.hold)
				q.run(20 * time.Second) // the beginning, in which nobody knows the pace
				q.sums = sums{}
				const window = 10 * time.Second
				q.run(window)
				grants := float64(q.grants)
				t.Logf("%.0f grants/s, free %.1f %%, slept %.1f %%, %.1f reads and %.2f openings for each", grants/window.Seconds(),
					100*q.free.Seconds()/window.Seconds(), 100*float64(q.slept)/grants, float64(q.reads)/grants, float64(q.opened)/grants)
				require.Less(t, q.free.Seconds()/window.Seconds(), c.free)
				require.LessOrEqual(t, float64(q.slept)/grants, c.slept)
				require.Less(t, float64(q.reads), c.reads*max(grants, float64(n)*window.Seconds()))
			})
		}
	}
}

// TestPaceOfManyPlaces is TestPaceInASimulatedQueue where several hold at a time: reading less often costs little there.
func TestPaceOfManyPlaces(t *testing.T) {
	t.Parallel()
	for _, width := range []int64{2, 4, 16} {
		for _, n := range []int{32, 64, 128} {
			t.Run(fmt.Sprintf("%d places, %d processes", width, n), func(t *testing.T) {
				t.Parallel()
				q := newSimQueue(n, width, 5*time.Millisecond)
				q.run(20 * time.Second)
				q.sums = sums{}
				const window = 10 * time.Second
				q.run(window)
				grants := float64(q.grants)
				t.Logf("%.0f grants/s, free %.1f %%, slept %.1f %%, %.1f reads and %.2f openings for each", grants/window.Seconds(),
					100*q.free.Seconds()/window.Seconds()/float64(width), 100*float64(q.slept)/grants, float64(q.reads)/grants, float64(q.opened)/grants)
				require.Less(t, q.free.Seconds()/window.Seconds(), 0.25*float64(width))
				require.Less(t, float64(q.reads), 8*grants)
				require.Less(t, float64(q.opened), 0.01*grants)
			})
		}
	}
}

// TestPaceAfterAStandstill: all who wait find out that the queue stands, soon and with few reads, and that it moves again.
func TestPaceAfterAStandstill(t *testing.T) {
	t.Parallel()
	for _, n := range []int{8, 128} {
		q := newSimQueue(n, 1, 0)
		q.run(10 * time.Second)
		long := 5 * time.Second
		q.hold = func() time.Duration { d := long; long = 0; return d }
		q.run(2200 * time.Millisecond) // two dozes of those far back
		q.sums = sums{}
		q.run(2500 * time.Millisecond)
		require.Zero(t, q.reads, "all listen")
		q.run(2 * time.Second)
		q.sums = sums{}
		q.run(10 * time.Second)
		require.Greater(t, q.grants, 900)
		require.Less(t, q.opened, 60*n, "and doze again")
	}
}

func TestPaceOfANewQueue(t *testing.T) {
	t.Parallel()
	var p pace
	p.start(1, 1)
	require.True(t, p.next(1, false).listen, "next in a queue of which nothing is known")
	p.start(1, 100)
	require.False(t, p.next(1, false).listen)
	require.False(t, p.soon(1, time.Hour), "nothing is known")
	p.look(clock.Instant(500*time.Millisecond), 50)
	require.InDelta(t, 10*time.Millisecond, p.per, float64(time.Millisecond))
	require.True(t, p.soon(clock.Instant(500*time.Millisecond), 510*time.Millisecond))
	require.False(t, p.soon(clock.Instant(500*time.Millisecond), 400*time.Millisecond))
	p.start(clock.Instant(time.Second), 12)
	require.False(t, p.next(clock.Instant(time.Second), false).listen)
	p.look(clock.Instant(time.Second+90*time.Millisecond), 3)
	require.False(t, p.next(clock.Instant(time.Second+90*time.Millisecond), false).listen)
	require.True(t, p.next(clock.Instant(time.Second+90*time.Millisecond), true).listen, "a stream that is open is kept near the head")
	p.start(clock.Instant(2*time.Second), 3)
	require.True(t, p.next(clock.Instant(2*time.Second), false).listen, "10 ms an arrival is slow for so few")
}
