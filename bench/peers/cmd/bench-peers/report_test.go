package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/run"
	"github.com/fairlock/fairlock/bench/stats"
)

// synthetic is a run of every kind at every size, but for what is never run, with the figures of a lock of that sort.
func synthetic(t *testing.T) *Results {
	t.Helper()
	r := &Results{}
	o, err := parse([]string{"-out", t.TempDir()})
	require.NoError(t, err)
	for i, c := range o.contestants {
		for j, n := range []int{2, 8, 32, 128} {
			if c.Kind == "square-mongo-lock" {
				r.NotRun = append(r.NotRun, NotRun{Kind: c.Kind, N: n, Why: "refused"})
				continue
			}
			if n == 128 && (c.Kind == "redisson-fair" || c.Kind == "curator-mutex") {
				continue
			}
			base := math.Exp2(float64(i%7)) / 4
			row := run.Row{
				Kind: c.Kind, Server: c.Server, N: n, Window: 3, Floor: stats.Spread{N: 200, P50: 3, P99: 6},
				ServerOps: 16 * base * float64(1+j), Commands: 3 * base * float64(1+j), ServerCPU: 7 * base, ClientCPU: base,
				Analysis: stats.Analysis{Grants: 300, PerSecond: 300 / base, OtherShare: 0.9,
					ToAnother: stats.Spread{N: 99, P50: 3 * base, P99: 9 * base * float64(1+j)},
					Wait:      stats.Spread{N: 99, P50: 50 * base, P99: 70 * base, Max: 80 * base}, Jain: 1, JainBest: 1},
			}
			if strings.HasPrefix(c.Kind, "mongo-") {
				row.Jain = 0.99 - 0.2*float64(j)*base/8
			}
			for k := range 300 {
				row.Order = append(row.Order, min(299, max(0, k+(k*7919%(1+20*(i%4)))-10*(i%4))))
			}
			r.add(row)
		}
	}
	return r
}

// Every plot is written, and the tables say what the runs say.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	if kept := os.Getenv("FAIRLOCK_BENCH_PLOTS"); kept != "" { // for people, who then look at them
		dir = kept
	}
	r := synthetic(t)
	require.NoError(t, r.write(dir))
	for _, name := range []string{"handoff.svg", "throughput.svg", "cost.svg", "order.svg"} {
		text, err := os.ReadFile(filepath.Join(dir, "peers", name))
		require.NoError(t, err)
		require.Contains(t, string(text), "fairlock", name)
		require.Contains(t, string(text), "redisson-fair", name)
		require.NotContains(t, string(text), "curator-mutex", "%s: eight lines at most", name)
	}
	text, err := os.ReadFile(filepath.Join(dir, "peers.md"))
	require.NoError(t, err)
	_, known, ok := strings.Cut(string(text), "## What a reader wants to know")
	require.True(t, ok)
	require.Equal(t, 3, strings.Count(known, "| fairlock | "))
	require.Equal(t, 3, strings.Count(known, "| square-mongo-lock | not run: refused |"))
	require.NotContains(t, known, "## ", "the last part")
	require.Contains(t, string(text), "## Polling against the queue")

	loaded, err := load(dir)
	require.NoError(t, err)
	require.Len(t, loaded.Rows, len(r.Rows))
	for _, row := range loaded.Rows {
		if row.N == ordered {
			require.Len(t, row.Order, 300, "the plot of the order can be made again from the file")
		}
	}
}
