package fairprom_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/fairlocktest"
	fairprom "github.com/fairlock/fairlock/metrics/prometheus"
)

// text is what a scrape of a registry with these collectors brings.
func text(t *testing.T, of ...prometheus.Collector) string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry() // which checks what is collected against what was described
	reg.MustRegister(of...)
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, rec.Code, rec.Body.String())
	return rec.Body.String()
}

// requireLines requires lines of a scrape.
func requireLines(t *testing.T, scrape string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		require.Contains(t, "\n"+scrape, "\n"+line+"\n")
	}
}

// life takes locks, waits for one, gives up, loses one and meets a dead process, and returns what two observed processes of it have told c.
func life(t *testing.T, c *fairprom.Collector) *fairlocktest.Server {
	t.Helper()
	srv := fairlocktest.NewServer()
	cfg := func() *fairlock.Config { return &fairlock.Config{Observer: c.Observer()} }
	a, b := srv.Process(t, cfg()), srv.Process(t, cfg())
	ctx := t.Context()

	held, err := a.Lock(ctx, "x")
	require.NoError(t, err)
	_, err = b.TryLock(ctx, "x")
	require.ErrorIs(t, err, fairlock.ErrBusy)
	_, err = b.Lock(ctx, "x", fairlock.MaxWait(time.Second))
	require.ErrorIs(t, err, fairlock.ErrWaitLimit)
	time.AfterFunc(3*time.Second, func() { require.NoError(t, held.Unlock(ctx)) })
	require.NoError(t, b.Do(ctx, "x", func(context.Context) error { // waits for 3 s, holds for 2 s
		time.Sleep(2 * time.Second)
		return nil
	}))
	s, err := b.Semaphore("s", 4)
	require.NoError(t, err)
	permits, err := s.Acquire(ctx, 2)
	require.NoError(t, err)
	require.NoError(t, permits.Unlock(ctx))

	// b is cut off for longer than its lease.
	lost, err := b.Lock(ctx, "x")
	require.NoError(t, err)
	time.Sleep(5 * time.Second) // with a ticket
	b.Cut()
	next, err := a.Lock(ctx, "x")
	require.NoError(t, err)
	b.Heal()
	require.ErrorIs(t, lost.Unlock(ctx), fairlock.ErrLost)
	require.NoError(t, next.Unlock(ctx))
	synctest.Wait()
	return srv
}

func TestScrape(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fairprom.New(nil)
		life(t, c)
		got := text(t, c)
		requireLines(t, got,
			`fairlock_acquire_total{kind="mutex",outcome="granted"} 4`,
			`fairlock_acquire_total{kind="mutex",outcome="busy"} 1`,
			`fairlock_acquire_total{kind="mutex",outcome="timeout"} 1`,
			`fairlock_acquire_total{kind="semaphore",outcome="granted"} 1`,
			`fairlock_wait_seconds_count{kind="mutex"} 4`,
			`fairlock_wait_seconds_bucket{kind="mutex",le="0.001"} 2`,
			`fairlock_wait_seconds_bucket{kind="mutex",le="2.5"} 2`,
			`fairlock_wait_seconds_bucket{kind="mutex",le="5"} 3`,
			`fairlock_hold_seconds_count{kind="mutex"} 4`,
			`fairlock_release_seconds_count{kind="mutex"} 3`,
			`fairlock_lost_total{reason="lease"} 1`,
			`fairlock_lost_total{reason="forced"} 0`,
			`fairlock_reaped_total{kind="session"} 1`,
			`fairlock_reaped_total{kind="ticket"} 1`,
			`fairlock_stream_reopens_total{reason="pool"} 0`,
			`fairlock_held 0`, `fairlock_waiting 0`, `fairlock_managers 2`,
			`fairlock_poll_wakeups_total 0`, `fairlock_unobserved_total 0`,
		)
		require.NotContains(t, got, `lock="`)
		require.NotContains(t, got, `fairlock_renew_total{outcome="error"} 0`)
		require.NotContains(t, got, `fairlock_renew_total{outcome="ok"} 0`)
	})
}

func TestScrapeWithNamesAndLabels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fairprom.New(&fairprom.Options{
			LockNames: true, WaitBuckets: []float64{1}, HoldBuckets: []float64{2}, ConstLabels: prometheus.Labels{"app": "shop"},
		})
		life(t, c)
		requireLines(t, text(t, c),
			`fairlock_acquire_total{app="shop",kind="mutex",lock="x",outcome="granted"} 4`,
			`fairlock_wait_seconds_bucket{app="shop",kind="mutex",lock="x",le="1"} 2`,
			`fairlock_hold_seconds_bucket{app="shop",kind="mutex",lock="x",le="2"} 2`,
			`fairlock_release_seconds_count{app="shop",kind="mutex"} 3`,
			`fairlock_lost_total{app="shop",lock="x",reason="lease"} 1`,
			`fairlock_held{app="shop"} 0`,
		)
	})
}

// TestWhatLockAllUndoes: it was held, and not given back by anybody, so how long that took is not known.
func TestWhatLockAllUndoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fairprom.New(nil)
		srv := fairlocktest.NewServer()
		held, err := srv.Manager(t, nil).Lock(t.Context(), "b")
		require.NoError(t, err)
		m := srv.Manager(t, &fairlock.Config{Observer: c.Observer()})
		_, err = m.LockAll(t.Context(), []string{"a", "b"}, fairlock.MaxWait(time.Second))
		require.ErrorIs(t, err, fairlock.ErrWaitLimit)
		synctest.Wait()
		require.NoError(t, held.Unlock(t.Context()))
		got := text(t, c)
		requireLines(t, got, `fairlock_hold_seconds_count{kind="mutex"} 1`, `fairlock_held 0`)
		require.NotContains(t, got, "fairlock_release_seconds_count")
	})
}

// TestCountsSurviveClose: counters never go down, whichever manager of several is closed.
func TestCountsSurviveClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fairprom.New(nil)
		m := fairlocktest.New(t, &fairlock.Config{Observer: c.Observer()})
		l, err := m.Lock(t.Context(), "x")
		require.NoError(t, err)
		requireLines(t, text(t, c), `fairlock_grants_total{by="arrival"} 1`, `fairlock_held 1`, `fairlock_managers 1`)
		require.NoError(t, m.Close(t.Context()))
		require.ErrorIs(t, l.Err(), fairlock.ErrClosed)
		requireLines(t, text(t, c), `fairlock_grants_total{by="arrival"} 1`, `fairlock_held 0`, `fairlock_managers 0`, `fairlock_lost_total{reason="closed"} 1`)
	})
}

func TestQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := fairlocktest.NewServer()
		m, p := srv.Manager(t, nil), srv.Process(t, nil)
		take := func(name string) *fairlock.Lock {
			l, err := m.Lock(t.Context(), name)
			require.NoError(t, err)
			return l
		}
		x, y := take("x"), take("y")
		require.NoError(t, take("idle").Unlock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 3 {
			go func() { _, _ = m.Lock(ctx, "x") }()
			synctest.Wait()
		}
		time.Sleep(10 * time.Second)
		requireLines(t, text(t, fairprom.NewQueues(m, nil)),
			"fairlock_queue_depth 3", "fairlock_queue_held 2", "fairlock_queue_oldest_seconds 10", "fairlock_queue_locks 3", "fairlock_queue_read 1")
		named := text(t, fairprom.NewQueues(m, &fairprom.QueueOptions{LockNames: true}))
		requireLines(t, named, `fairlock_queue_depth{lock="x"} 3`, `fairlock_queue_held{lock="y"} 1`, `fairlock_queue_oldest_seconds{lock="y"} 0`,
			`fairlock_queue_oldest_seconds{lock="x"} 10`)
		require.NotContains(t, named, `lock="idle"`)
		require.NotContains(t, text(t, fairprom.NewQueues(m, &fairprom.QueueOptions{LockNames: true, MostLocks: 1})), `"y"`)

		p.Cut()
		got := text(t, fairprom.NewQueues(p.Manager, nil))
		requireLines(t, got, "fairlock_queue_read 0")
		require.NotContains(t, got, "queue_depth", "what is not known is not told")
		p.Heal()
		cancel()
		synctest.Wait()
		require.NoError(t, x.Unlock(t.Context()))
		require.NoError(t, y.Unlock(t.Context()))
	})
}

// TestQueuesOfReadersAndWriters: who waits is counted, and not the units that a writer takes.
func TestQueuesOfReadersAndWriters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := fairlocktest.NewServer()
		m := srv.Manager(t, nil)
		rw, err := m.RWLock("rw")
		require.NoError(t, err)
		other, err := srv.Manager(t, nil).RWLock("rw")
		require.NoError(t, err)
		var held []*fairlock.Lock
		for range 2 {
			l, err := rw.RLock(t.Context())
			require.NoError(t, err)
			held = append(held, l)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		wrote := make(chan *fairlock.Lock)
		go func() {
			l, _ := other.Lock(ctx)
			wrote <- l
		}()
		synctest.Wait()
		for range 3 {
			go func() { _, _ = rw.RLock(ctx) }()
		}
		time.Sleep(5 * time.Second) // with tickets
		queues := fairprom.NewQueues(m, nil)
		requireLines(t, text(t, queues), "fairlock_queue_depth 4", "fairlock_queue_held 2")
		for _, l := range held {
			require.NoError(t, l.Unlock(t.Context()))
		}
		writer := <-wrote
		requireLines(t, text(t, queues), "fairlock_queue_depth 3", "fairlock_queue_held 1")
		cancel()
		synctest.Wait()
		require.NoError(t, writer.Unlock(t.Context()))
		requireLines(t, text(t, queues), "fairlock_queue_depth 0", "fairlock_queue_held 0")
	})
}

// TestLint: names and help texts are as Prometheus wants them.
func TestLint(t *testing.T) {
	t.Parallel()
	m := fairlocktest.New(t, nil)
	for _, c := range []prometheus.Collector{fairprom.New(nil), fairprom.NewQueues(m, nil)} {
		problems, err := testutil.CollectAndLint(c)
		require.NoError(t, err)
		require.Empty(t, problems)
	}
	for _, line := range strings.Split(text(t, fairprom.New(nil)), "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			require.True(t, strings.HasPrefix(line, "fairlock_"), line)
		}
	}
}
