package check

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/fairlock/fairlock"
	fairotel "github.com/fairlock/fairlock/metrics/otel"
)

// TestTwins: behind OpenTelemetry's exporter for Prometheus are the same metrics, with the same types and labels, as in the collector. So the dashboard
// and the alerts work with either.
func TestTwins(t *testing.T) {
	t.Parallel()
	var all map[string]metric
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		exporter, err := otelprom.New(otelprom.WithRegisterer(reg), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
		require.NoError(t, err)
		meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
		tel, err := fairotel.New(&fairotel.Options{MeterProvider: meters})
		require.NoError(t, err)
		life(t, tel.Observer(), func(*fairlock.Manager) { all = gathered(t, reg) })
		require.NoError(t, tel.Close())
		require.NoError(t, meters.Shutdown(t.Context()))
	})
	want := collected(t, false)
	maps.DeleteFunc(want, func(name string, _ metric) bool { return strings.HasPrefix(name, "fairlock_queue_") }) // of the database
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(all)))
	for name, m := range want {
		require.Equal(t, m.kind, all[name].kind, name)
		require.Equal(t, slices.Sorted(maps.Keys(m.labels)), slices.Sorted(maps.Keys(all[name].labels)), name)
	}
}
