package clock

import (
	"testing"
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
