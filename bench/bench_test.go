package bench_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/contend"
	"github.com/fairlock/fairlock/bench/fair"
	"github.com/fairlock/fairlock/bench/recipes"
	"github.com/fairlock/fairlock/bench/run"
	"github.com/fairlock/fairlock/bench/stats"
)

// server is shared by all tests.
var server *run.Mongo

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case contend.Subcommand:
			os.Exit(contend.Main(append(recipes.Kinds(), contend.Fairlock()), os.Args[2:]))
		case fair.Subcommand:
			os.Exit(fair.Main(os.Args[2:]))
		}
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute) // a first run fetches a server
	defer cancel()
	var err error
	if server, err = run.StartMongo(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench: no replica set:", err)
		return 1
	}
	code := m.Run()
	if err := server.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench: stop:", err)
		return 1
	}
	return code
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func measure(t *testing.T, kind string) run.Row {
	row, err := run.Measure(limited(t), server, run.Spec{
		Contestant: run.Contestant{Kind: kind, Server: "mongo"}, N: 2, Warm: 500 * time.Millisecond, Window: time.Second, Floors: 20,
	})
	require.NoError(t, err)
	require.Greater(t, row.Grants, 5)
	require.Zero(t, row.Overlaps, "two held the lock at one time")
	require.Zero(t, row.Disorder)
	require.Equal(t, 40, row.Floor.N)
	require.Positive(t, row.PerFloor())
	require.Positive(t, row.ServerOps)
	require.Positive(t, row.ServerCPU)
	require.Positive(t, row.Commands)
	return row
}

func TestFairlockContends(t *testing.T) {
	t.Parallel()
	row := measure(t, "fairlock")
	require.Zero(t, row.Overtaken)
	require.Greater(t, row.Jain, 0.98)
	require.InDelta(t, 2, row.Writes(), 0.3, "an enqueue and a settle")
	require.InDelta(t, 1, row.Other["enqueues"], 0.2)
	for _, rs := range row.Records {
		for _, r := range rs {
			if r.Granted != 0 {
				require.Positive(t, r.Token)
				require.LessOrEqual(t, r.Asked, r.Queued)
				require.LessOrEqual(t, r.Queued, r.Granted)
			}
		}
	}
}

func TestRecipesContend(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"mongo-exists-1ms", "mongo-state-1ms", "mongo-spin-1ms", "mongo-modify-1ms"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			measure(t, kind)
		})
	}
}

func TestIdle(t *testing.T) {
	t.Parallel()
	idle, err := run.MeasureIdle(limited(t), server, run.IdleSpec{
		Contestant: run.Contestant{Kind: "fairlock", Server: "mongo"}, N: 2, Settle: 200 * time.Millisecond,
		Connected: 300 * time.Millisecond, Blocked: 300 * time.Millisecond,
	})
	require.NoError(t, err)
	require.InDelta(t, 0.3, idle.Blocked.Seconds, 0.3)
}

func TestQuietMeasurements(t *testing.T) {
	t.Parallel()
	ctx := limited(t)
	pair, err := fair.Pair(ctx, server, 10)
	require.NoError(t, err)
	require.Equal(t, 10, pair.Got.N)
	require.Greater(t, pair.P50(), 1.0)

	hand, err := fair.HandOff(ctx, server, 0, 10, time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, 10, hand.Floor.N)
	require.False(t, math.IsNaN(hand.P99()))

	combined, err := fair.Combine(ctx, server, 8, 500*time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, combined.PerFloor())

	crowd, err := fair.Crowd(ctx, server, 500, 500*time.Millisecond)
	require.NoError(t, err)
	require.Greater(t, crowd.BareBytes, int64(1000), "a stack, less what so few can reuse")
}

// A contender that cannot do its work is an error with its reason, and nothing is left.
func TestContenderFails(t *testing.T) {
	t.Parallel()
	_, err := run.Measure(limited(t), server, run.Spec{Contestant: run.Contestant{Kind: "nobody", Server: "mongo"}, N: 3, Window: time.Second})
	require.ErrorContains(t, err, `-kind "nobody" is none of this binary's`)
}

func TestGroupEndsWithItsInput(t *testing.T) {
	t.Parallel()
	ctx := limited(t)
	g, err := run.StartGroup(ctx, run.Contestant{Kind: "fairlock"}, server.Target(), run.LockName(), 2, 0)
	require.NoError(t, err)
	defer g.Kill()
	require.Len(t, g.PIDs(), 2)
	g.Go()
	records, _, err := g.Stop(ctx)
	require.NoError(t, err)
	require.LessOrEqual(t, len(stats.Granted(records)), 10_000)
	_, err = run.CPU(g.PIDs()[0])
	require.Error(t, err, "the process is gone")
}
