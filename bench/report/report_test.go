package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/fair"
	"github.com/fairlock/fairlock/bench/run"
	"github.com/fairlock/fairlock/bench/stats"
)

// made is a report with figures that are easy to check.
func made() Fairlock {
	r := Fairlock{
		Pair:    &fair.Against{Got: stats.Spread{N: 1, P50: 6, P99: 12}, Floor: stats.Spread{N: 1, P50: 3, P99: 6}},
		HandOff: &fair.Against{Got: stats.Spread{N: 1, P50: 3.3, P99: 9}, Floor: stats.Spread{N: 1, P50: 3, P99: 6}},
		Combine: &fair.Combining{Goroutines: 64, PerSecond: 8000, Floor: stats.Spread{N: 1, P50: 3}},
		Idle: []run.Idle{{Kind: "fairlock", N: 128, Connected: run.IdleCost{Seconds: 15, Primary: 2},
			Blocked: run.IdleCost{Seconds: 30, Primary: 4.5}}},
		Crowd: &fair.Crowded{Waiters: 10_000, CPU: 0.2, Bytes: 400},
	}
	for _, n := range []int{2, 8, 32, 128, 256} {
		row := run.Row{
			Kind: "fairlock", Server: "mongo", N: n, Floor: stats.Spread{N: 200, P50: 3, P99: 6},
			ServerOps: 18, Commands: 4, ServerCPU: 8, ClientCPU: 1,
			Other: map[string]float64{"writes_locks": 2, "events": 3, "reads": 1},
			Analysis: stats.Analysis{Grants: 1000, PerSecond: 200, ToAnother: stats.Spread{N: 999, P50: 4.5, P99: 9},
				Wait: stats.Spread{N: 999, P50: 10, P99: 12, Max: 13}, Jain: 1, JainBest: 1},
		}
		for i := range 100 {
			row.Order = append(row.Order, i)
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

func TestFigures(t *testing.T) {
	t.Parallel()
	f, ok := made().Figures()
	require.True(t, ok)
	require.Equal(t, Figures{
		Pair: 2, HandOffP50: 1.1, HandOffP99: 1.5, Flat: 1, Writes: 2, Wakeups: 4, Combine: 24, Blocked: 2.5, CrowdCPU: 0.2, CrowdBytes: 400,
	}, f)
	text, err := json.Marshal(f)
	require.NoError(t, err)
	at := -1
	for _, key := range []string{"pair_ratio", "handoff_p50_ratio", "handoff_p99_ratio", "flat_256_over_8", "writes_per_acquisition",
		"wakeups_per_acquisition_256", "combine_64_per_floor", "blocked_128_primary_cpu_pct", "blocked_10k_cpu_pct",
		"blocked_10k_bytes_per_waiter", "inversions"} {
		i := bytes.Index(text, []byte(`"`+key+`":`))
		require.Greater(t, i, at, "%s is missing or out of order in %s", key, text)
		at = i
	}

	part := made()
	part.Crowd = nil
	_, ok = part.Figures()
	require.False(t, ok, "a headline without one of its figures")
}

func TestTargets(t *testing.T) {
	t.Parallel()
	for _, target := range made().Targets() {
		require.True(t, target.Met(), target.What)
	}
	slow := made()
	slow.Rows[4].PerSecond = 100
	var missed []string
	for _, target := range slow.Targets() {
		if !target.Met() {
			missed = append(missed, target.What)
		}
	}
	require.Equal(t, []string{"acquisitions/s at 256 processes / at 8", "acquisitions/s x floor p50, 256 processes"}, missed)
	require.False(t, Target{Value: math.NaN(), Limit: 1}.Met())
	require.False(t, Target{Value: math.NaN(), Limit: 1, Least: true}.Met())
}

func TestRecipesAreComparedByTheBest(t *testing.T) {
	t.Parallel()
	r := made()
	for jain, commands := range map[float64]float64{0.5: 8, 0.7: 100, 0.1: 900} {
		r.Recipes = append(r.Recipes, run.Row{Kind: "x", N: 128, Commands: commands, Analysis: stats.Analysis{Grants: 1, Jain: jain}})
	}
	targets := r.Targets()
	require.InDelta(t, 25, targets[len(targets)-1].Value, 1e-9)
}

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, made().Write(dir))
	for _, name := range []string{"latest.json", "fairlock.json"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, json.Valid(text), name)
	}
	md, err := os.ReadFile(filepath.Join(dir, "fairlock.md"))
	require.NoError(t, err)
	for line := range strings.Lines(string(md)) {
		require.NotContains(t, line, "NaN")
	}
	for _, name := range []string{"handoff.svg", "throughput.svg", "order.svg", "cost.svg"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, wellFormed(text), name)
	}

	part := t.TempDir()
	require.NoError(t, Fairlock{Pair: made().Pair}.Write(part))
	require.NoFileExists(t, filepath.Join(part, "latest.json"))
	require.NoFileExists(t, filepath.Join(part, "handoff.svg"))
}

func wellFormed(text []byte) error {
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Nothing that was measured may be missing because nothing came out of it.
func TestEmptyRowIsWritten(t *testing.T) {
	t.Parallel()
	r := Fairlock{Rows: []run.Row{{Kind: "fairlock", N: 32}}}
	require.Contains(t, r.Markdown(), "| 32 | 0 | fairlock |")
	require.NoError(t, r.Write(t.TempDir()))
}
