package peers_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/contend"
	"github.com/fairlock/fairlock/bench/peers"
	"github.com/fairlock/fairlock/bench/run"
)

const (
	// patience is for what must happen, calm for what must not.
	patience = 30 * time.Second
	calm     = 150 * time.Millisecond
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == contend.Subcommand {
		os.Exit(contend.Main(peers.Kinds(), os.Args[2:]))
	}
	os.Exit(m.Run())
}

// start starts a server. That it cannot be had is a failure, for a benchmark without it compares less than it says.
func start(t *testing.T, name string) run.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // the first time it may have to be built
	defer cancel()
	s, err := peers.Start(ctx, name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })
	return s
}

// Every kind in Go: two clients take the lock in turn, the one while the other waits; a wait that is cancelled leaves nothing behind.
func TestKindsTakeTurns(t *testing.T) {
	byServer := map[string][]contend.Kind{}
	for _, k := range peers.Kinds() {
		byServer[k.Server] = append(byServer[k.Server], k)
	}
	for name, kinds := range byServer {
		t.Run(name, func(t *testing.T) {
			s := start(t, name)
			for _, k := range kinds {
				t.Run(k.Name, func(t *testing.T) { takeTurns(t, s, k) })
			}
		})
	}
}

func takeTurns(t *testing.T, s run.Server, k contend.Kind) {
	ctx := t.Context()
	before, err := s.Ops(ctx)
	require.NoError(t, err)
	var lockers [2]contend.Locker
	for i := range lockers {
		lockers[i], err = k.Open(ctx, s.Target(), "turns-"+k.Name)
		require.NoError(t, err)
	}
	type granted struct {
		grant contend.Grant
		err   error
	}
	ask := func(ctx context.Context, i int) chan granted {
		c := make(chan granted, 1)
		go func() {
			g, err := lockers[i].Lock(ctx)
			c <- granted{g, err}
		}()
		return c
	}
	await := func(c chan granted) granted {
		select {
		case g := <-c:
			return g
		case <-time.After(patience):
			require.FailNow(t, "the lock was not granted")
			panic("unreachable")
		}
	}

	const turns = 6
	waiting := ask(ctx, 0)
	var token int64
	for turn := range turns {
		g := await(waiting)
		require.NoError(t, g.err)
		if g.grant.Token != 0 {
			require.Greater(t, g.grant.Token, token)
			token = g.grant.Token
		}
		holder := turn % 2
		waiting = ask(ctx, 1-holder)
		select {
		case g := <-waiting:
			require.FailNow(t, "two hold the lock", "%v", g)
		case <-time.After(calm):
		}
		require.NoError(t, lockers[holder].Unlock(ctx))
	}

	g := await(waiting)
	require.NoError(t, g.err)
	cancelled, cancel := context.WithCancel(ctx)
	waiting = ask(cancelled, 1)
	time.Sleep(calm)
	cancel()
	require.Error(t, await(waiting).err)
	require.NoError(t, lockers[0].Unlock(ctx))

	for _, l := range lockers {
		totals, err := l.Close(ctx)
		require.NoError(t, err)
		if _, counts := l.(contend.Counter); counts {
			require.Positive(t, totals.Commands)
		}
	}
	if after, err := s.Ops(ctx); len(before) > 0 {
		require.NoError(t, err)
		require.GreaterOrEqual(t, after["total"]-before["total"], int64(2*turns))
	}
}

// Every kind, those in Java among them, as the harness runs it: a process for each contender.
func TestContestantsContend(t *testing.T) {
	byServer := map[string][]run.Contestant{}
	for _, c := range peers.All() {
		byServer[c.Server] = append(byServer[c.Server], c)
	}
	for name, contestants := range byServer {
		t.Run(name, func(t *testing.T) {
			s := start(t, name)
			for _, c := range contestants {
				t.Run(c.Kind, func(t *testing.T) {
					prepare(t, c)
					row, err := run.Measure(t.Context(), s, run.Spec{
						Contestant: c, N: 2, Hold: time.Millisecond, Warm: time.Second, Window: time.Second,
					})
					require.NoError(t, err)
					require.GreaterOrEqual(t, row.Grants, 10)
					require.Zero(t, row.Overlaps, "two held the lock at one time")
					require.Positive(t, row.ClientCPU)
				})
			}
		})
	}
}
