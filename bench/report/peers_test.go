package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/run"
	"github.com/fairlock/fairlock/bench/stats"
)

func ran(kind string, n int, jain, perSecond, toAnother, commands, ops float64) run.Row {
	return run.Row{Kind: kind, N: n, Commands: commands, ServerOps: ops,
		Analysis: stats.Analysis{Grants: 1, Jain: jain, PerSecond: perSecond, OtherShare: toAnother}}
}

func TestPollingTable(t *testing.T) {
	t.Parallel()
	rows := []run.Row{
		ran("fairlock", 128, 0.99, 100, 1, 5, 20),
		ran("redsync", 128, 1, 9000, 1, 1, 1), // no recipe
		ran("mongo-exists-1ms", 128, 0.801, 40, 1, 150, 200),
		ran("mongo-state-1ms", 128, 0.804, 30, 1, 900, 900),  // as fair, and hands over less often
		ran("mongo-spin-1ms", 128, 0.79, 400, 0.5, 900, 900), // less fair
		ran("mongo-exists-1ms", 32, 1, 400, 1, 900, 900),     // another size
		{Kind: "mongo-modify-1ms", N: 128, HoldMS: 5, Floor: stats.Spread{}, Analysis: stats.Analysis{Grants: 1, Jain: 1}},
	}
	text := PollingTable(rows)
	require.Contains(t, text, "The recipe is mongo-exists-1ms")
	require.Contains(t, text, "| commands that clients send | 150 | 5 | 30 | >= 20 | yes |")
	require.Contains(t, text, "| operations that the primary counts | 200 | 20 | 10 | >= 20 | no |")
	require.Empty(t, PollingTable(rows[1:]))
	require.Empty(t, PollingTable(rows[:2]))
}

func TestPlotted(t *testing.T) {
	t.Parallel()
	rows := []run.Row{
		ran("curator-mutex", 32, 1, 1, 1, 1, 1), ran("fairlock", 32, 1, 1, 1, 1, 1),
		ran("mongo-exists-1ms", 32, 0.95, 100, 1, 1, 1), ran("mongo-state-1ms", 32, 0.99, 90, 1, 1, 1),
		ran("mongo-exists-50ms", 32, 0.5, 900, 1, 1, 1), // fast, for whoever had it last
		ran("mongo-state-1ms", 128, 0.85, 90, 1, 1, 1),
	}
	require.Equal(t, []string{"fairlock", "mongo-exists-1ms", "curator-mutex"}, Plotted(rows))
	require.Equal(t, "mongo-state-1ms", plottedRecipe(rows[5:]), "the fairest if none is fair")
	require.Empty(t, plottedRecipe(rows[:2]))
	require.Error(t, Plots(t.TempDir(), []run.Row{
		{Kind: "a"}, {Kind: "b"}, {Kind: "c"}, {Kind: "d"}, {Kind: "e"}, {Kind: "f"}, {Kind: "g"}, {Kind: "h"}, {Kind: "i"},
	}), "more than can be told apart")
}

func TestKnowTables(t *testing.T) {
	t.Parallel()
	rows := []run.Row{ran("fairlock", 8, 1, 100, 1, 5, 20), ran("etcd-mutex", 8, 1, 80, 1, 0, 7)}
	why := func(kind string, n int) string {
		if kind == "square-mongo-lock" && n == 8 {
			return "refused"
		}
		return ""
	}
	text := KnowTables([]string{"fairlock", "etcd-mutex", "square-mongo-lock", "redsync"}, rows, why)
	require.Contains(t, text, "| fairlock | 100 | - | - | 1.000 (0.000) | 0 | 5 | 20 | 0 |\n")
	require.Contains(t, text, "| etcd-mutex | 80 | - | - | 1.000 (0.000) | 0 | - | 7 | 0 |\n")
	require.Contains(t, text, "| square-mongo-lock | not run: refused |")
	require.NotContains(t, text, "redsync")
	require.NotContains(t, text, "32 processes")
}
