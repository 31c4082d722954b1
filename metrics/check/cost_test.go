package check

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/fairlocktest"
	"github.com/fairlock/fairlock/internal/replset"
	fairotel "github.com/fairlock/fairlock/metrics/otel"
	fairprom "github.com/fairlock/fairlock/metrics/prometheus"
)

// kinds are the observers that are compared. The first is none.
var kinds = []string{"none", "prometheus", "otel"}

// observer returns one of them, with readers and samplers that take everything.
func observer(tb testing.TB, kind string) *fairlock.Observer {
	switch kind {
	case "prometheus":
		c := fairprom.New(nil)
		prometheus.NewRegistry().MustRegister(c)
		return c.Observer()
	case "otel":
		tel, err := fairotel.New(&fairotel.Options{
			MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
			TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithSpanProcessor(nothing{})),
		})
		require.NoError(tb, err)
		return tel.Observer()
	}
	return nil
}

// nothing takes spans and exports none: what an exporter costs is not fairlock's.
type nothing struct{}

func (nothing) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (nothing) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (nothing) Shutdown(context.Context) error                  { return nil }
func (nothing) ForceFlush(context.Context) error                { return nil }

// pairs is acquisitions per second of callers that take one lock in turns, for d.
func pairs(tb testing.TB, m *fairlock.Manager, callers int, d time.Duration) float64 {
	ctx := context.Background()
	var n atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for time.Since(began) < d {
				l, err := m.Lock(ctx, "x")
				if err == nil {
					err = l.Unlock(ctx)
				}
				if err != nil {
					tb.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	all.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}

// rounds measures all kinds in turns, in another order each time, so that what the machine does otherwise falls on all of them alike, and reports
// the median of acquisitions per second without an observer, and by how many percent the medians with one are lower.
func rounds(b *testing.B, managers map[string]*fairlock.Manager, callers, n int, d time.Duration) {
	got := map[string][]float64{}
	for _, kind := range kinds {
		pairs(b, managers[kind], callers, d/4)
	}
	for i := range n {
		for j := range kinds {
			kind := kinds[(i+j)%len(kinds)]
			got[kind] = append(got[kind], pairs(b, managers[kind], callers, d))
		}
	}
	median := func(kind string) float64 {
		slices.Sort(got[kind])
		return got[kind][n/2]
	}
	none := median("none")
	b.ReportMetric(none, "pairs/s")
	for _, kind := range kinds[1:] {
		b.ReportMetric(100*(1-median(kind)/none), kind+"-%")
		b.ReportMetric(1e9/median(kind)-1e9/none, kind+"-ns/pair")
	}
	b.ReportMetric(0, "ns/op") // means nothing here
}

// BenchmarkCost compares acquisitions per second on a replica set of three. The target is 2 % at most. One caller alone pays two writes for each; eight in one
// process pass the lock on without a write most of the time, which is the fastest that fairlock can be.
func BenchmarkCost(b *testing.B) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	uri, set, err := replset.FromEnvOrStart(ctx, replset.Options{})
	require.NoError(b, err)
	if set != nil {
		defer func() { require.NoError(b, set.Stop(ctx)) }()
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	require.NoError(b, err)
	defer func() { require.NoError(b, client.Disconnect(ctx)) }()
	managers := map[string]*fairlock.Manager{}
	for _, kind := range kinds {
		db := client.Database("fairlock_cost_" + kind)
		m, err := fairlock.New(ctx, db, &fairlock.Config{Observer: observer(b, kind)})
		require.NoError(b, err)
		defer func() {
			require.NoError(b, m.Close(ctx))
			require.NoError(b, db.Drop(ctx))
		}()
		managers[kind] = m
	}
	for _, callers := range []int{1, 8} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			for b.Loop() {
				rounds(b, managers, callers, 7, time.Second)
			}
		})
	}
}

// BenchmarkCostInMemory is the same with no database to wait for: what is left is fairlock's own work, and the nanoseconds that an observer adds to it.
func BenchmarkCostInMemory(b *testing.B) {
	managers := map[string]*fairlock.Manager{}
	for _, kind := range kinds {
		managers[kind] = fairlocktest.New(b, &fairlock.Config{Observer: observer(b, kind)})
	}
	for b.Loop() {
		rounds(b, managers, 1, 9, 200*time.Millisecond)
	}
}

// TestCostInAllocations: what the adapters allocate for an acquisition that nobody else wants.
func TestCostInAllocations(t *testing.T) {
	most := map[string]float64{"prometheus": 6, "otel": 38}
	allocs := map[string]float64{}
	for _, kind := range kinds {
		m := fairlocktest.New(t, &fairlock.Config{TTL: time.Hour, Observer: observer(t, kind)})
		allocs[kind] = testing.AllocsPerRun(500, func() {
			l, err := m.Lock(t.Context(), "x")
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
	t.Logf("%v", allocs)
	for kind, n := range most {
		require.LessOrEqual(t, allocs[kind]-allocs["none"], n, kind)
	}
}
