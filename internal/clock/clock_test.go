package clock

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSystemNeverGoesBackAndAdvances(t *testing.T) {
	t.Parallel()
	first := System.Now()
	last := first
	for last == first {
		now := System.Now()
		require.GreaterOrEqual(t, now, last)
		last = now
	}
}

func TestPortable(t *testing.T) {
	t.Parallel()
	// Times built by time.Date have no monotonic part, so both differences are the wall clock's; a backward step
	// must then count as nothing and a forward one in full.
	wall := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := NewPortable(func() time.Time { return wall })
	require.Equal(t, Instant(0), c.Now())
	wall = wall.Add(time.Hour)
	require.Equal(t, Instant(time.Hour), c.Now(), "time asleep, or a forward step, counts")
	wall = wall.Add(-2 * time.Hour)
	require.Equal(t, Instant(time.Hour), c.Now(), "a backward step takes nothing away")
	wall = wall.Add(time.Second)
	require.Equal(t, Instant(time.Hour+time.Second), c.Now(), "and time goes on from there")
}

func TestInstant(t *testing.T) {
	t.Parallel()
	i := Instant(5 * time.Second)
	require.Equal(t, Instant(7*time.Second), i.Add(2*time.Second))
	require.Equal(t, -2*time.Second, i.Sub(i.Add(2*time.Second)))
}

// TestPortableCountsTheGreater of what the monotonic and the wall clock say.
func TestPortableCountsTheGreater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := NewPortable(time.Now) // in a bubble both parts go on together
		time.Sleep(time.Minute)
		require.Equal(t, Instant(time.Minute), c.Now())
	})
	now := time.Now()
	c := NewPortable(func() time.Time { return now })
	require.Equal(t, Instant(0), c.Now())
	now = now.Add(time.Second) // both parts
	require.Equal(t, Instant(time.Second), c.Now())
}

func TestPortableNeverGoesBackForAnybody(t *testing.T) {
	t.Parallel()
	c := NewPortable(time.Now)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			last := c.Now()
			for range 2000 {
				now := c.Now()
				if now < last {
					t.Errorf("%d after %d", now, last)
				}
				last = now
			}
		})
	}
	all.Wait()
}
