package check

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/tally/usage"
	fairotel "github.com/fairlock/fairlock/metrics/otel"
	fairprom "github.com/fairlock/fairlock/metrics/prometheus"
)

// sums is each metric summed over its series: of a histogram how many observations it has.
func sums(t *testing.T, g prometheus.Gatherer) map[string]int64 {
	t.Helper()
	families, err := g.Gather()
	require.NoError(t, err)
	all := map[string]int64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			all[f.GetName()] += int64(m.GetHistogram().GetSampleCount()) + int64(m.GetCounter().GetValue()) + int64(m.GetGauge().GetValue())
		}
	}
	return all
}

// TestUsage: after programs that use everything, with processes that are harmed and killed, gauges are 0, counts are those of the callers, both adapters
// say the same, and each span that began has ended.
func TestUsage(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := fairprom.New(nil)
				plain, exported := prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry()
				plain.MustRegister(c)
				exporter, err := otelprom.New(otelprom.WithRegisterer(exported), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
				require.NoError(t, err)
				meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
				spans := tracetest.NewSpanRecorder()
				tel, err := fairotel.New(&fairotel.Options{
					MeterProvider: meters, TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
				})
				require.NoError(t, err)
				told := usage.Run(t, seed, fairlock.Observers(c.Observer(), tel.Observer()), func() {})
				synctest.Wait()

				got := sums(t, plain)
				for _, gauge := range []string{"held", "waiting", "managers", "streams"} {
					require.Zero(t, got["fairlock_"+gauge], gauge)
				}
				calls, granted := got["fairlock_acquire_total"], got["fairlock_wait_seconds"]
				require.GreaterOrEqual(t, calls, told.Calls+told.Sets)
				require.LessOrEqual(t, calls, told.Calls+3*told.Sets) // as many as a set has names
				require.GreaterOrEqual(t, granted, told.Granted)
				require.Equal(t, granted, got["fairlock_hold_seconds"], "each that was granted has ended")
				require.Less(t, granted-got["fairlock_release_seconds"]-got["fairlock_lost_total"], told.Sets*2, "the rest was undone")
				require.Positive(t, got["fairlock_lost_total"])
				for name, n := range sums(t, exported) {
					require.Equal(t, got[name], n, name)
				}
				require.Len(t, spans.Ended(), len(spans.Started()))
				require.Len(t, spans.Ended(), int(calls+granted))
				require.NoError(t, tel.Close())
				require.NoError(t, meters.Shutdown(context.WithoutCancel(t.Context())))
			})
		})
	}
}
