package stats

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/contend"
)

// rec is a record in milliseconds.
func rec(asked, queued, granted, unlocking, token int64) contend.Record {
	const ms = int64(time.Millisecond)
	return contend.Record{
		Asked: asked * ms, Queued: queued * ms, Granted: granted * ms, Unlocking: unlocking * ms, Unlocked: (unlocking + 1) * ms, Token: token,
	}
}

func window(from, to int64) Window {
	return Window{From: from * int64(time.Millisecond), To: to * int64(time.Millisecond)}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(i + 1)
	}
	require.EqualValues(t, 50, Quantile(hundred, 0.5))
	require.EqualValues(t, 99, Quantile(hundred, 0.99))
	require.EqualValues(t, 100, Quantile(hundred, 1))
	require.EqualValues(t, 1, Quantile(hundred, 0))
	require.EqualValues(t, 7, Quantile([]int64{7}, 0.99))
	require.Zero(t, Quantile(nil, 0.5))
	require.Equal(t, Spread{N: 3, P50: 2, P99: 3, Max: 3},
		OfDurations([]time.Duration{3 * time.Millisecond, time.Millisecond, 2 * time.Millisecond}))
}

func TestJain(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 1, Jain([]int{5, 5, 5}), 1e-12)
	require.InDelta(t, 0.25, Jain([]int{9, 0, 0, 0}), 1e-12)
	require.Zero(t, Jain([]int{0, 0}))
	require.Zero(t, Jain(nil))
	require.InDelta(t, 1, JainBest(12, 4), 1e-12)
	require.InDelta(t, Jain([]int{2, 2, 1, 1}), JainBest(6, 4), 1e-12)
}

// Two contenders in turn, and a third that waits all the time.
func TestHandOffs(t *testing.T) {
	t.Parallel()
	records := [][]contend.Record{
		{rec(0, 1, 2, 10, 1), rec(12, 13, 24, 30, 3)},
		{rec(3, 4, 14, 20, 2), rec(22, 23, 33, 40, 4)},
		{rec(100, 0, 0, 0, 0)},
	}
	a := Analyse(records, window(0, 1000))
	require.Equal(t, 4, a.Grants)
	require.InDelta(t, 4, a.PerSecond, 1e-9)
	require.Equal(t, Spread{N: 3, P50: 4, P99: 4, Max: 4}, a.HandOff)
	require.Equal(t, a.HandOff, a.ToAnother)
	require.InDelta(t, 1, a.OtherShare, 1e-9)
	require.Equal(t, Spread{N: 2, P50: 11, P99: 12, Max: 12}, a.Wait, "without the first of each")
	require.InDelta(t, 900, a.Oldest, 1e-9)
	require.Zero(t, a.Inversions)
	require.Zero(t, a.Overlaps)
	require.Zero(t, a.Disorder)
	require.Equal(t, 1, a.Unserved)
	require.InDelta(t, Jain([]int{2, 2, 0}), a.Jain, 1e-12)
}

// A release that nobody waited for is no hand-off, however long the lock was free.
func TestNobodyWaited(t *testing.T) {
	t.Parallel()
	a := Analyse([][]contend.Record{{rec(0, 1, 2, 3, 1), rec(50, 51, 52, 53, 2)}}, window(0, 100))
	require.Equal(t, 2, a.Grants)
	require.Zero(t, a.HandOff.N)
}

// The one who released gets the lock again although another one waits.
func TestBackToTheSame(t *testing.T) {
	t.Parallel()
	a := Analyse([][]contend.Record{
		{rec(0, 0, 1, 20, 0), rec(21, 0, 22, 30, 0)},
		{rec(5, 0, 40, 41, 0)},
	}, window(0, 100))
	require.Equal(t, 2, a.HandOff.N)
	require.Equal(t, Spread{N: 1, P50: 10, P99: 10, Max: 10}, a.ToAnother)
	require.InDelta(t, 0.5, a.OtherShare, 1e-9)
	require.Equal(t, 1, a.Inversions, "asked at 21, granted before the one who asked at 5")
	require.Equal(t, 1, a.Overtaken)
}

func TestOvertaken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		waiter, winner contend.Record
		want           int
	}{
		{"acknowledged before the winner asked", rec(0, 10, 90, 91, 0), rec(11, 12, 50, 60, 0), 1},
		{"acknowledged after the winner asked", rec(0, 12, 90, 91, 0), rec(11, 13, 50, 60, 0), 0},
		{"acknowledged at the same moment", rec(0, 11, 90, 91, 0), rec(11, 13, 50, 60, 0), 0},
		{"never granted", rec(0, 10, 0, 0, 0), rec(11, 12, 50, 60, 0), 1},
		{"no stamp, asked 5 ms earlier", rec(6, 0, 90, 91, 0), rec(11, 0, 50, 60, 0), 1},
		{"no stamp, asked 4 ms earlier", rec(7, 0, 90, 91, 0), rec(11, 0, 50, 60, 0), 0},
		{"granted before", rec(0, 10, 40, 45, 0), rec(11, 12, 50, 60, 0), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := Analyse([][]contend.Record{{c.waiter}, {c.winner}}, window(0, 1000))
			require.Equal(t, c.want, a.Overtaken)
			require.Equal(t, c.want, a.Inversions)
		})
	}
	crowd := [][]contend.Record{{rec(20, 21, 50, 60, 0)}}
	for range 5 {
		crowd = append(crowd, []contend.Record{rec(0, 1, 0, 0, 0)})
	}
	a := Analyse(crowd, window(0, 1000))
	require.Equal(t, 1, a.Inversions)
	require.Equal(t, 5, a.Overtaken)
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	a := Analyse([][]contend.Record{{rec(0, 1, 2, 10, 1)}, {rec(0, 1, 9, 12, 2)}}, window(0, 100))
	require.Equal(t, 1, a.Overlaps, "granted at 9, released from 10 on")
	a = Analyse([][]contend.Record{{rec(0, 1, 2, 10, 1)}, {rec(0, 1, 10, 12, 2)}}, window(0, 100))
	require.Zero(t, a.Overlaps)
	// A short hold inside a long one: the long one's next must be compared with the long one.
	a = Analyse([][]contend.Record{{rec(0, 1, 2, 50, 1)}, {rec(0, 1, 9, 12, 2)}, {rec(0, 1, 20, 22, 3)}}, window(0, 100))
	require.Equal(t, 2, a.Overlaps)
}

func TestTokens(t *testing.T) {
	t.Parallel()
	grants := func(tokens ...int64) [][]contend.Record {
		var rs []contend.Record
		for i, token := range tokens {
			at := int64(10 * i)
			rs = append(rs, rec(at, at+1, at+2, at+3, token))
		}
		return [][]contend.Record{rs}
	}
	require.Zero(t, Analyse(grants(1, 2, 9), window(0, 100)).Disorder)
	require.Equal(t, 1, Analyse(grants(1, 1, 9), window(0, 100)).Disorder)
	require.Equal(t, 1, Analyse(grants(5, 1, 2), window(0, 100)).Disorder)
	require.Zero(t, Analyse(grants(0, 0, 0), window(0, 100)).Disorder, "a lock without tokens")
}

// Only grants inside the window count, but those outside are known: hand-offs from them, waits that reach into it, faults.
func TestWindow(t *testing.T) {
	t.Parallel()
	records := [][]contend.Record{
		{rec(0, 1, 2, 10, 1), rec(11, 12, 24, 30, 3)},
		{rec(3, 4, 14, 20, 2), rec(21, 22, 33, 40, 4)},
	}
	a := Analyse(records, window(24, 33)) // the end is outside
	require.Equal(t, 1, a.Grants)
	require.Equal(t, Spread{N: 1, P50: 4, P99: 4, Max: 4}, a.HandOff)
	require.Equal(t, Spread{N: 1, P50: 13, P99: 13, Max: 13}, a.Wait)
	require.InDelta(t, 12, a.Oldest, 1e-9, "asked at 21, not granted when the window ended at 33")
}

func TestArrivalRanks(t *testing.T) {
	t.Parallel()
	grants := Granted([][]contend.Record{
		{rec(0, 5, 10, 11, 0)},
		{rec(1, 3, 12, 13, 0)},
		{rec(4, 0, 14, 15, 0)}, // no stamp: by when it asked
	})
	require.Equal(t, []int{2, 0, 1}, ArrivalRanks(grants))
}

func TestRanksText(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Ranks{2, 0, 11})
	require.NoError(t, err)
	require.Equal(t, `"2 0 11"`, string(text))
	var r Ranks
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, Ranks{2, 0, 11}, r)
	require.Error(t, json.Unmarshal([]byte(`"2 x"`), &r))
}
