package check

import (
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/gateway"
)

// TestGateway: what the gateway has under /metrics is what Prometheus reads, and of its manager the same metrics, with the same types and labels, as
// the collector has. So the dashboard and the alerts work with it.
func TestGateway(t *testing.T) {
	t.Parallel()
	var all map[string]metric
	synctest.Test(t, func(t *testing.T) {
		metrics := gateway.NewMetrics()
		life(t, metrics.Observer(), func(m *fairlock.Manager) {
			s, err := gateway.New(m, &gateway.Config{Anonymous: true, Metrics: metrics})
			require.NoError(t, err)
			answer := httptest.NewRecorder()
			s.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
			require.Equal(t, 200, answer.Code)
			require.NoError(t, s.Close(t.Context()))
			parser := expfmt.NewTextParser(model.LegacyValidation)
			families, err := parser.TextToMetricFamilies(answer.Body)
			require.NoError(t, err)
			all = gathered(t, gatherer(slices.Collect(maps.Values(families))))
		})
	})
	ours := 0
	for name, m := range all {
		if !strings.HasPrefix(name, "fairlock_gateway_") {
			continue
		}
		ours++
		require.Equal(t, strings.HasSuffix(name, "_total"), m.kind == dto.MetricType_COUNTER, name)
		delete(all, name)
	}
	require.Equal(t, 9, ours)
	want := collected(t, false)
	maps.DeleteFunc(want, func(name string, _ metric) bool { return strings.HasPrefix(name, "fairlock_queue_") }) // of the database
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(all)))
	for name, m := range want {
		require.Equal(t, m, all[name], name)
	}
}

// gatherer is families that are there already.
type gatherer []*dto.MetricFamily

func (g gatherer) Gather() ([]*dto.MetricFamily, error) { return g, nil }
