package reaper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/queue"
)

type ranges = []queue.Range

// wall is a server's clock that agrees.
func wall(at time.Duration) time.Time { return time.Unix(1000, 0).Add(at) }

func TestBeatSightings(t *testing.T) {
	t.Parallel()
	s := newSightings()
	at := func(sec int) clock.Instant { return clock.Instant(time.Duration(sec) * time.Second) }
	require.Zero(t, s.beat("a", 1, at(10)), "first look")
	require.Equal(t, 5*time.Second, s.beat("a", 1, at(15)))
	require.Zero(t, s.beat("a", 2, at(20)), "it moved")
	require.Zero(t, s.beat("b", 1, at(25)))
	require.Equal(t, 9*time.Second, s.beat("a", 2, at(29)))
	require.Zero(t, s.beat("a", absent, at(30)), "its document is gone")
	require.Equal(t, time.Second, s.beat("a", absent, at(31)))
	require.Zero(t, s.beat("a", 2, at(32)), "it is back: an old read, and nothing is known any more")

	s.forgetBeats(at(35), 5*time.Second)
	require.Equal(t, 3*time.Second, s.beat("a", 2, at(35)), "looked at lately")
	require.NotContains(t, s.beats, "b")
}

func TestGapSightings(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Second
	type look struct {
		at   time.Duration
		gaps ranges
		ripe ranges
		next time.Duration
	}
	for _, c := range []struct {
		name  string
		looks []look
	}{
		{"stands for a grace", []look{
			{0, ranges{{Lo: 5, Hi: 9}}, nil, grace},
			{9 * time.Second, ranges{{Lo: 5, Hi: 9}}, nil, time.Second},
			{10 * time.Second, ranges{{Lo: 5, Hi: 9}}, ranges{{Lo: 5, Hi: 9}}, 0},
		}},
		{"closed in time", []look{
			{0, ranges{{Lo: 5, Hi: 9}}, nil, grace},
			{9 * time.Second, nil, nil, 0},
			{10 * time.Second, ranges{{Lo: 5, Hi: 9}}, nil, grace},
		}},
		{"split by a ticket", []look{
			{0, ranges{{Lo: 5, Hi: 9}}, nil, grace},
			{4 * time.Second, ranges{{Lo: 5, Hi: 6}, {Lo: 8, Hi: 9}}, nil, 6 * time.Second},
			{10 * time.Second, ranges{{Lo: 5, Hi: 6}, {Lo: 8, Hi: 9}}, ranges{{Lo: 5, Hi: 6}, {Lo: 8, Hi: 9}}, 0},
		}},
		{"grows: each part has its own time", []look{
			{0, ranges{{Lo: 5, Hi: 6}}, nil, grace},
			{4 * time.Second, ranges{{Lo: 5, Hi: 9}}, nil, 6 * time.Second},
			{10 * time.Second, ranges{{Lo: 5, Hi: 9}}, ranges{{Lo: 5, Hi: 6}}, 4 * time.Second},
			{14 * time.Second, ranges{{Lo: 7, Hi: 9}}, ranges{{Lo: 7, Hi: 9}}, 0},
		}},
		{"grows at both ends and over two", []look{
			{0, ranges{{Lo: 5, Hi: 6}, {Lo: 9, Hi: 9}}, nil, grace},
			{10 * time.Second, ranges{{Lo: 3, Hi: 12}}, ranges{{Lo: 5, Hi: 6}, {Lo: 9, Hi: 9}}, grace},
			{20 * time.Second, ranges{{Lo: 3, Hi: 4}, {Lo: 7, Hi: 8}, {Lo: 10, Hi: 12}}, ranges{{Lo: 3, Hi: 4}, {Lo: 7, Hi: 8}, {Lo: 10, Hi: 12}}, 0},
		}},
		{"unsorted", []look{
			{0, ranges{{Lo: 8, Hi: 9}, {Lo: 1, Hi: 2}}, nil, grace},
			{10 * time.Second, ranges{{Lo: 8, Hi: 9}, {Lo: 1, Hi: 3}}, ranges{{Lo: 1, Hi: 2}, {Lo: 8, Hi: 9}}, grace},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSightings()
			for _, l := range c.looks {
				ripe, next := s.gap("x", clock.Instant(l.at), wall(l.at), l.gaps, grace)
				require.Equal(t, l.ripe, ripe, "at %v", l.at)
				require.Equal(t, l.next, next, "at %v", l.at)
			}
		})
	}
}

func TestGapsOfLocksAreApart(t *testing.T) {
	t.Parallel()
	s := newSightings()
	s.gap("x", 0, wall(0), ranges{{Lo: 1, Hi: 2}}, time.Second)
	ripe, _ := s.gap("y", clock.Instant(time.Second), wall(time.Second), ranges{{Lo: 1, Hi: 2}}, time.Second)
	require.Empty(t, ripe)
	s.forgetGaps("x")
	ripe, _ = s.gap("x", clock.Instant(time.Second), wall(time.Second), ranges{{Lo: 1, Hi: 2}}, time.Second)
	require.Empty(t, ripe, "forgotten")
}

// TestGapsNeedTwoClocks: neither a clock of this process that runs ahead nor one of the server makes a gap ripe alone, and a server's clock
// that is set back begins anew and keeps nobody longer than that.
func TestGapsNeedTwoClocks(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Second
	gap := ranges{{Lo: 1, Hi: 2}}
	for name, looks := range map[string][]struct {
		own, server time.Duration
		ripe        bool
	}{
		"this clock runs ahead": {{0, 0, false}, {time.Hour, 9 * time.Second, false}, {time.Hour, 10 * time.Second, true}},
		"the server's does":     {{0, 0, false}, {9 * time.Second, time.Hour, false}, {10 * time.Second, time.Hour, true}},
		"the server's is set back": {
			{0, 0, false}, {9 * time.Second, -time.Hour, false}, {18 * time.Second, -time.Hour + 9*time.Second, false},
			{19 * time.Second, -time.Hour + 10*time.Second, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSightings()
			for i, l := range looks {
				ripe, _ := s.gap("x", clock.Instant(l.own), wall(l.server), gap, grace)
				require.Equal(t, l.ripe, len(ripe) > 0, "look %d", i)
			}
		})
	}
}
