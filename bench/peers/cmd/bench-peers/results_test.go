package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/run"
)

func row(kind string, n int, perSecond float64) run.Row {
	r := run.Row{Kind: kind, Server: "mongo", N: n}
	r.Grants, r.PerSecond, r.ToAnother.P50 = 10, perSecond, 1
	return r
}

// of is the task of a run.
func of(kind string, n int) task { return task{Contestant: run.Contestant{Kind: kind}, n: n} }

// replace is what bench does with a task and its run.
func (r *Results) replace(row run.Row) {
	r.forget(of(row.Kind, row.N))
	r.add(row)
}

// A run of a part replaces its like and leaves the rest.
func TestResultsMerge(t *testing.T) {
	dir := t.TempDir()
	r, err := load(dir)
	require.NoError(t, err)
	r.Machine.Servers["mongo"] = "6"
	r.replace(row("redsync", 2, 1))
	r.replace(row("fairlock", 2, 2))
	r.notRun(of("etcd-mutex", 2), errors.New("no etcd |\nhere"))
	idle := task{Contestant: run.Contestant{Kind: "etcd-mutex"}, n: 128, idle: true}
	r.notRun(idle, errors.New("no etcd"))
	require.NoError(t, r.write(dir))
	text, err := os.ReadFile(filepath.Join(dir, "peers.md"))
	require.NoError(t, err)
	require.Contains(t, string(text), `| etcd-mutex | 2 | 0 | no etcd \| here |`)
	require.Contains(t, string(text), `| etcd-mutex | 128 | blocked | no etcd |`)
	require.FileExists(t, filepath.Join(dir, "peers", "handoff.svg"))

	r, err = load(dir)
	require.NoError(t, err)
	r.replace(row("redsync", 2, 3))
	r.replace(row("etcd-mutex", 2, 4))
	require.NoError(t, r.write(dir))

	r, err = load(dir)
	require.NoError(t, err)
	require.Equal(t, "6", r.Machine.Servers["mongo"])
	var got []float64
	for _, row := range r.Rows {
		got = append(got, row.PerSecond)
	}
	require.Equal(t, []float64{2, 3, 4}, got, "in the order of the contestants, the newest of each")
	require.Len(t, r.NotRun, 1)
	require.True(t, r.NotRun[0].Idle)
}

// A run that was interrupted skips what it has, and only that.
func TestResume(t *testing.T) {
	o := options{window: 3 * time.Second, idle: 10 * time.Second}
	r := &Results{}
	made := row("redsync", 2, 1)
	made.Window = 3
	r.add(made)
	r.notRun(of("etcd-mutex", 2), errors.New("no etcd"))
	require.True(t, r.has(of("redsync", 2), o))
	require.False(t, r.has(of("redsync", 8), o))
	require.False(t, r.has(of("etcd-mutex", 2), o), "what failed is tried again")
	require.False(t, r.has(task{Contestant: run.Contestant{Kind: "redsync"}, n: 2, hold: time.Millisecond}, o))
	require.False(t, r.has(of("redsync", 2), options{window: time.Second}), "another window is another measurement")

	many := of("redsync", 128)
	made.N, made.Window = 128, 6
	r.add(made)
	require.True(t, r.has(many, o), "twice the window")

	blocked := task{Contestant: run.Contestant{Kind: "redsync"}, n: 128, idle: true}
	require.False(t, r.has(blocked, o))
	r.addIdle(run.Idle{Kind: "redsync", N: 128}, o.idle)
	require.True(t, r.has(blocked, o))
	require.False(t, r.has(blocked, options{idle: time.Second}))
}

// What cannot be started is in the results with its reason, which names no other machine.
func TestNotRun(t *testing.T) {
	p := &plan{results: &Results{}, begun: time.Now()}
	c := run.Contestant{Kind: "redsync", Server: "redis"}
	require.NoError(t, p.measure(t.Context(), nil, task{Contestant: c, n: 2, hold: 5 * time.Millisecond}, errors.New("redis-server is missing")))
	require.NoError(t, p.measure(t.Context(), nil, task{Contestant: c, n: 128, idle: true},
		errors.New("go: reading https://modules.test:8/x/@v/v1.zip: 403 Forbidden; lookup modules.test on 10.0.0.1:53: no such host; dial tcp 10.0.0.2:443: refused")))
	require.Equal(t, []NotRun{
		{Kind: "redsync", N: 2, HoldMS: 5, Why: "redis-server is missing"},
		{Kind: "redsync", N: 128, Idle: true, Why: "go: reading (address): 403 Forbidden; (address): no such host; dial tcp (address): refused"},
	}, p.results.NotRun)
}

// A run of everything takes about 25 minutes, and the builds, as the Makefile tells.
func TestEverythingFits(t *testing.T) {
	o, err := parse([]string{"-out", t.TempDir()})
	require.NoError(t, err)
	var total time.Duration
	for _, server := range o.servers() {
		for _, task := range o.tasks(server) {
			total += o.estimate(task)
		}
	}
	require.InDelta(t, 25, total.Minutes(), 1)
	require.Equal(t, contestants()[0], o.tasks("mongo")[0].Contestant, "fairlock is the first")
}

func TestParse(t *testing.T) {
	out := t.TempDir()
	kinds := func(args ...string) (names []string) {
		o, err := parse(append(args, "-out", out))
		require.NoError(t, err)
		for _, c := range o.contestants {
			names = append(names, c.Kind)
		}
		return names
	}
	o, err := parse([]string{"-sizes", "2, 8", "-holds", "0,1ms", "-out", out})
	require.NoError(t, err)
	require.Equal(t, []int{2, 8}, o.sizes)
	require.Equal(t, []time.Duration{0, time.Millisecond}, o.holds)
	require.Equal(t, []string{"fairlock", "redsync", "rueidislock", "bsm-redislock", "redisson-fair"}, kinds("-only", "redis,fairlock"))
	require.Contains(t, kinds(), "mongo-modify-100ms")
	require.NotContains(t, kinds(), "mongo-modify-50ms")
	require.Contains(t, kinds("-recipes"), "mongo-modify-50ms")
	require.Equal(t, []string{"mongo-modify-50ms"}, kinds("-only", "mongo-modify-50ms"))

	for _, bad := range [][]string{{"-only", "abacus"}, {"-sizes", "0"}, {"-holds", "-1s"}, {"-window", "1ms"}, {"what"}, {"-out", "/proc/none"}} {
		_, err := parse(append([]string{"-out", out}, bad...))
		require.Error(t, err, "%v", bad)
	}
}
