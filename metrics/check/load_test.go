package check

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/internal/parts"
	fairprom "github.com/fairlock/fairlock/metrics/prometheus"
)

const (
	loadFor = 20 * time.Minute
	scrape  = 15 * time.Second
)

var errAway = errors.New("the database is away")

// host is a process under load, on a database in memory whose calls take some milliseconds. It is scraped like any target.
type host struct {
	*fairlock.Manager
	name string
	reg  *prometheus.Registry
	away atomic.Bool
}

func newHost(t *testing.T, srv *memstore.Server, name string) *host {
	h := &host{name: name, reg: prometheus.NewPedanticRegistry()}
	c, metrics := srv.Client(), fairprom.New(nil)
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(7, uint64(len(name))))
	c.Steer(func(_ context.Context, at memstore.Point, _ memstore.Op, _ string) error {
		mu.Lock()
		d := time.Millisecond + time.Duration(r.ExpFloat64()*float64(2*time.Millisecond))
		mu.Unlock()
		time.Sleep(d)
		if h.away.Load() && at == memstore.Before {
			return errAway
		}
		return nil
	})
	var err error
	h.Manager, err = fairlock.Assemble(&fairlock.Config{TTL: 15 * time.Second, MaxWaiters: 8, Observer: metrics.Observer()}, parts.Parts{
		Clock: memstore.NewClock(), Queue: c.Queue(), Sessions: c.Sessions(), Source: c.Source(),
	})
	require.NoError(t, err)
	h.reg.MustRegister(metrics)
	if name == "one" {
		h.reg.MustRegister(fairprom.NewQueues(h.Manager, &fairprom.QueueOptions{LockNames: true}))
	}
	return h
}

// work uses all kinds of locks until ctx ends.
func (h *host) work(ctx context.Context, r *rand.Rand) {
	about := func(d time.Duration) { time.Sleep(time.Duration((0.5 + r.ExpFloat64()) * float64(d))) }
	for ctx.Err() == nil {
		var l *fairlock.Lock
		var err error
		wait, over := context.WithTimeout(ctx, 20*time.Second)
		switch r.IntN(10) {
		case 0:
			l, err = h.TryLock(wait, "invoices")
		case 1, 2:
			s, _ := h.Semaphore("api", 3)
			l, err = s.Acquire(wait, r.Int64N(2)+1)
		case 3:
			rw, _ := h.RWLock("catalogue")
			l, err = rw.Lock(wait)
		case 4, 5:
			rw, _ := h.RWLock("catalogue")
			l, err = rw.RLock(wait)
		case 6:
			l, err = h.Lock(wait, "invoices", fairlock.MaxWait(300*time.Millisecond))
		default:
			l, err = h.Lock(wait, "invoices")
		}
		over()
		if err == nil {
			about(200 * time.Millisecond)
			_ = l.Unlock(context.WithoutCancel(ctx))
		}
		about(time.Second)
	}
}

// underLoad is what a Prometheus that scrapes three processes has after a quarter of an hour: one is cut off from its database for a while, holders that hang are
// forced, and another process dies.
func underLoad(t *testing.T) (all store, began time.Time) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began = time.Now()
		srv := memstore.New(time.Now)
		ctx, stop := context.WithTimeout(t.Context(), loadFor)
		defer stop()
		hosts := []*host{newHost(t, srv, "one"), newHost(t, srv, "two"), newHost(t, srv, "three")}
		var works sync.WaitGroup
		for i, h := range hosts {
			for w := range 5 {
				r := rand.New(rand.NewPCG(uint64(i), uint64(w)))
				works.Go(func() { h.work(ctx, r) })
			}
		}
		time.AfterFunc(8*time.Minute, func() { hosts[2].away.Store(true) })
		time.AfterFunc(9*time.Minute, func() { hosts[2].away.Store(false) })
		hangs, err := hosts[0].Lock(ctx, "nightly")
		require.NoError(t, err)
		works.Go(func() { _ = hosts[1].Do(ctx, "nightly", func(context.Context) error { return nil }) })
		time.AfterFunc(12*time.Minute, func() { _ = hosts[1].ForceUnlock(ctx, "nightly", hangs.Token(), "hangs") })
		dead := newHost(t, srv, "dead")
		_, err = dead.Lock(ctx, "backup")
		require.NoError(t, err)
		time.AfterFunc(14*time.Minute, func() {
			dead.away.Store(true)
			works.Go(func() { _ = hosts[0].Do(ctx, "backup", func(context.Context) error { return nil }) })
		})
		works.Go(func() { // holds when it is cut off
			l, err := hosts[2].Lock(ctx, "export")
			require.NoError(t, err)
			<-l.Context().Done()
		})
		series := map[string][]chunks.Sample{}
		sets := map[string]labels.Labels{}
		for range loadFor / scrape {
			time.Sleep(scrape)
			for _, h := range hosts {
				scraped(t, h, series, sets)
			}
			for key, of := range series { // what a target does not have any more ends, as in Prometheus
				if now := time.Now().UnixMilli(); of[len(of)-1].T() < now {
					series[key] = append(of, sample{now, math.Float64frombits(value.StaleNaN)})
				}
			}
		}
		stop()
		works.Wait()
		end, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second)
		defer cancel()
		for _, h := range append(hosts, dead) {
			_ = h.Close(end)
		}
		for key, samples := range series {
			all = append(all, storage.NewListSeries(sets[key], samples))
		}
	})
	return all, began
}

// scraped adds what a target has now.
func scraped(t *testing.T, h *host, series map[string][]chunks.Sample, sets map[string]labels.Labels) {
	families, err := h.reg.Gather()
	require.NoError(t, err)
	add := func(name string, m *dto.Metric, v float64, more ...string) {
		of := append([]string{"__name__", name, "job", "shop", "instance", h.name}, more...)
		for _, l := range m.GetLabel() {
			of = append(of, l.GetName(), l.GetValue())
		}
		ls := labels.FromStrings(of...)
		sets[ls.String()] = ls
		series[ls.String()] = append(series[ls.String()], sample{time.Now().UnixMilli(), v})
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			hist := m.GetHistogram()
			if hist == nil {
				add(f.GetName(), m, m.GetCounter().GetValue()+m.GetGauge().GetValue())
				continue
			}
			for _, b := range hist.GetBucket() {
				add(f.GetName()+"_bucket", m, float64(b.GetCumulativeCount()), "le", fmt.Sprint(b.GetUpperBound()))
			}
			add(f.GetName()+"_bucket", m, float64(hist.GetSampleCount()), "le", "+Inf")
		}
	}
}
