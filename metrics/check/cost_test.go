package check

import (
	"context"
	"flag"
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

// kinds are the observers that are compared. The first is none, and so is the second: what it seems to cost is what the measurement is wrong by.
var kinds = []string{"none", "control", "prometheus", "otel"}

var roundsOf = flag.Int("rounds", 120, "rounds of a measurement of costs, a multiple of 4")

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

// orders are those of the kinds in four rounds: each is once in each place, so that what goes up or down slowly cancels out, and each comes once after each other, so that
// what one leaves to the next does too (a square of Williams).
var orders = [][]int{{0, 1, 3, 2}, {1, 2, 0, 3}, {2, 3, 1, 0}, {3, 0, 2, 1}}

// rounds measures all kinds once in each round, and compares those of the same round: what the machine does meanwhile falls on them alike. It reports acquisitions per
// second without an observer, in the middle, and of each kind by how many percent they are fewer and how much longer each takes, with the half width of the
// 95 % interval after ±. No garbage is collected between two kinds: a collection falls into the time of a kind as often as what it allocates is a reason for it.
func rounds(b *testing.B, managers map[string]*fairlock.Manager, callers int, d time.Duration) {
	require.Positive(b, *roundsOf)
	require.Zero(b, *roundsOf%len(orders), "-rounds: all orders as often as the others")
	got := map[string][]float64{}
	for _, kind := range kinds {
		pairs(b, managers[kind], callers, d)
	}
	for i := range *roundsOf {
		for _, k := range orders[i%len(orders)] {
			kind := kinds[k]
			got[kind] = append(got[kind], pairs(b, managers[kind], callers, d))
		}
	}
	none := got["none"]
	b.ReportMetric(slices.Sorted(slices.Values(none))[len(none)/2], "pairs/s")
	for _, kind := range kinds[1:] {
		percent, ns := fewer(got[kind], none), longer(got[kind], none)
		b.ReportMetric(percent.mean, kind+"-%")
		b.ReportMetric(percent.half, kind+"-±%")
		b.ReportMetric(ns.mean, kind+"-ns/pair")
		b.ReportMetric(ns.half, kind+"-±ns/pair")
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
				rounds(b, managers, callers, 250*time.Millisecond)
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
		rounds(b, managers, 1, 50*time.Millisecond)
	}
}

// TestOrders: each kind has each place once, and each predecessor.
func TestOrders(t *testing.T) {
	t.Parallel()
	places, after := map[[2]int]int{}, map[[2]int]int{}
	for _, order := range orders {
		for place, kind := range order {
			places[[2]int{place, kind}]++
			if place > 0 {
				after[[2]int{order[place-1], kind}]++
			}
		}
	}
	require.Len(t, places, len(kinds)*len(kinds))
	require.Len(t, after, len(kinds)*(len(kinds)-1))
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
