package gateway

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

// metricsOf is the series of /metrics, each with its value.
func metricsOf(c *client) map[string]string {
	c.b.t.Helper()
	r := c.do("GET", "/metrics", "")
	require.Equal(c.b.t, 200, r.status)
	require.Equal(c.b.t, expositionType, r.header.Get("Content-Type"))
	all := map[string]string{}
	for line := range strings.Lines(string(r.body)) {
		if !strings.HasPrefix(line, "#") {
			name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			require.True(c.b.t, found, line)
			require.NotContains(c.b.t, all, name, "comes twice")
			all[name] = value
		}
	}
	return all
}

// TestMetrics: what the gateway has now, how leases ended, and what its manager does. metrics/check reads it with Prometheus' parser.
func TestMetrics(t *testing.T) {
	metrics := NewMetrics()
	bubble(t, func(b *bed) {
		c, watch := b.alice(), b.client(eveToken)
		require.Equal(t, 401, b.client("").do("GET", "/metrics", "").status)
		holder := c.stream("a", x)
		holder.holds()
		c.queued("b", x)
		c.open("GET", "/v1/watch", "")
		polled := make(chan *reply, 1)
		go func() { polled <- b.client(bobToken).put("c", 3*time.Second, x) }()
		synctest.Wait()
		got := metricsOf(watch)
		for name, want := range map[string]string{
			`fairlock_gateway_leases{state="held"}`: "1", `fairlock_gateway_leases{state="waiting"}`: "2", "fairlock_gateway_clients": "2",
			"fairlock_gateway_streams": "1", "fairlock_gateway_polls": "1", "fairlock_gateway_watchers": "1",
			`fairlock_gateway_requests_total{code="401"}`: "1", `fairlock_gateway_requests_total{code="202"}`: "1", `fairlock_gateway_requests_total{code="200"}`: "2",
			"fairlock_held": "1", "fairlock_waiting": "2", "fairlock_managers": "1", `fairlock_wait_seconds_count{kind="mutex"}`: "1",
			`fairlock_wait_seconds_bucket{kind="mutex",le="0.001"}`: "1", `fairlock_wait_seconds_bucket{kind="mutex",le="+Inf"}`: "1",
			`fairlock_acquire_total{kind="mutex",outcome="granted"}`: "1", `fairlock_lost_total{reason="session"}`: "0",
			`fairlock_gateway_leases_over_total{reason="no-heartbeat",state="left"}`: "0",
		} {
			require.Equal(t, want, got[name], name)
		}
		require.NotEqual(t, "0", got["fairlock_gateway_connections"])
		require.Equal(t, "0", got["fairlock_gateway_connections_refused_total"])

		require.Equal(t, 202, (<-polled).status)
		time.Sleep(testHeartbeat + time.Second)
		c.release("a")
		holder.gone()
		synctest.Wait()
		got = metricsOf(watch)
		for name, want := range map[string]string{
			`fairlock_gateway_leases{state="held"}`: "0", `fairlock_gateway_leases{state="waiting"}`: "0", "fairlock_gateway_clients": "0",
			"fairlock_gateway_streams": "0", "fairlock_gateway_polls": "0",
			`fairlock_gateway_leases_over_total{reason="no-heartbeat",state="left"}`: "2", `fairlock_gateway_leases_over_total{reason="",state="released"}`: "1",
			`fairlock_hold_seconds_count{kind="mutex"}`: "1", `fairlock_hold_seconds_bucket{kind="mutex",le="5"}`: "0",
			`fairlock_hold_seconds_bucket{kind="mutex",le="10"}`: "1", `fairlock_hold_seconds_sum{kind="mutex"}`: "8",
			`fairlock_acquire_total{kind="mutex",outcome="cancelled"}`: "2", `fairlock_release_seconds_count{kind="mutex"}`: "1",
		} {
			require.Equal(t, want, got[name], name)
		}
		require.NotEqual(t, "0", got[`fairlock_renew_total{outcome="ok"}`])
	}, func(c *Config, f *fairlock.Config) { c.Metrics, f.Observer = metrics, metrics.Observer() })
}

// TestMetricsOfWhatWasUndone: a manager whose LockAll gave back what it had is no loss, and nobody waited for it.
func TestMetricsOfWhatWasUndone(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	ended := m.Observer().Ended
	ended(t.Context(), fairlock.Ended{Acquired: fairlock.Acquired{Acquiring: fairlock.Acquiring{Kind: "mutex"}}, Undone: true})
	var e exposition
	m.writeTo(&e)
	require.Contains(t, e.String(), `fairlock_hold_seconds_count{kind="mutex"} 1`)
	require.NotContains(t, e.String(), "undone")
	require.NotRegexp(t, `fairlock_release_seconds_count\{kind="mutex"\} [^0]`, e.String())
}

// TestMetricsNameNobody: no name of a lock, a label or a client is in them.
func TestMetricsNameNobody(t *testing.T) {
	metrics := NewMetrics()
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", `"name":"secret lock","label":"secret label"`)
		text := string(c.do("GET", "/metrics", "").body)
		require.NotContains(t, text, "secret")
		require.NotContains(t, text, "alice")
		require.NotRegexp(t, regexp.MustCompile(`\block="`), text)
	}, func(c *Config, f *fairlock.Config) { c.Metrics, f.Observer = metrics, metrics.Observer() })
}

// TestEndingsAreAll: each way that a lease ended in the tests of this package has its series.
func TestEndingsAreAll(t *testing.T) {
	t.Parallel()
	all := endings()
	seen := map[reason]bool{}
	for i, end := range all {
		require.True(t, end.state.final(), end)
		require.NotContains(t, all[:i], end)
		seen[end.reason] = true
	}
	for _, r := range reasons {
		require.True(t, seen[r], r)
	}
}
