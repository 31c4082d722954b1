package check

import (
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
)

// rules are those of metrics/alerts.yml, as Prometheus itself reads them.
func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	src, err := os.ReadFile("../alerts.yml")
	require.NoError(t, err)
	groups, errs := rulefmt.Parse(src, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.NewTextHandler(io.Discard, nil)))
	require.Empty(t, errs)
	require.Len(t, groups.Groups, 1)
	return groups.Groups[0].Rules
}

func TestAlertsAskForWhatThereIs(t *testing.T) {
	t.Parallel()
	plain, named := catalogue(collected(t, false)), catalogue(collected(t, true))
	seen := map[string]bool{}
	for _, r := range rules(t) {
		require.False(t, seen[r.Alert], r.Alert)
		seen[r.Alert] = true
		_, err := judge(plain, named, r.Expr)
		require.NoError(t, err, r.Alert)
		require.Contains(t, []string{"warning", "info"}, r.Labels["severity"], r.Alert)
		for _, a := range []string{"summary", "description"} {
			require.NotEmpty(t, r.Annotations[a], r.Alert)
		}
		require.Equal(t, "docs/metrics.md#"+strings.ToLower(r.Alert), r.Annotations["runbook"])
	}
	require.GreaterOrEqual(t, len(seen), 8)
}

// course is a metric over an hour, a sample each minute: from its value at the beginning it grows by each to the end, but for the last
// 10 minutes, in which it grows by lately.
type course struct {
	series       string
	from         float64
	each, lately float64
}

const minutes = 60

func (c course) samples() []chunks.Sample {
	var all []chunks.Sample
	v := c.from
	for i := range minutes + 1 {
		all = append(all, sample{int64(i) * 60_000, v})
		if i < minutes-10 {
			v += c.each
		} else {
			v += c.lately
		}
	}
	return all
}

// sample is a float.
type sample struct {
	t int64
	v float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// TestAlertsFire: each alert is silent in quiet operation, and fires at what it is for.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	const at = `{job="shop",instance="one"}`
	in := func(name, labels string) string { return name + `{job="shop",instance="one",` + labels + `}` }
	quiet := []course{
		{series: in("fairlock_lost_total", `reason="lease"`)}, {series: in("fairlock_lost_total", `reason="closed"`), each: 1, lately: 1},
		{series: in("fairlock_lost_total", `reason="max_hold"`), each: 1, lately: 1}, {series: in("fairlock_lost_total", `reason="settled"`)},
		{series: in("fairlock_renew_total", `outcome="ok"`), each: 6, lately: 6}, {series: in("fairlock_renew_total", `outcome="error"`), from: 7},
		{series: "fairlock_queue_oldest_seconds" + at, from: 5}, {series: in("fairlock_stream_reopens_total", `reason="timeout"`), from: 3},
		{series: in("fairlock_stream_reopens_total", `reason="error"`)},
		{series: "fairlock_poll_wakeups_total" + at, from: 4}, {series: in("fairlock_grants_total", `by="event"`), each: 600, lately: 600},
		{series: in("fairlock_reaped_total", `kind="session"`)}, {series: in("fairlock_reaped_total", `kind="ticket"`), each: 1, lately: 1},
		{series: in("fairlock_acquire_total", `kind="mutex",outcome="granted"`), each: 600, lately: 600},
		{series: in("fairlock_acquire_total", `kind="mutex",outcome="timeout"`), each: 6, lately: 6},
		{series: in("fairlock_acquire_total", `kind="mutex",outcome="error"`)},
		{series: "fairlock_queue_read" + at, from: 1}, {series: "fairlock_passed_over_total" + at}, {series: "fairlock_unobserved_total" + at, from: 50},
	}
	// Each with what is different then.
	fires := map[string]course{
		"FairlockLockLost":         {series: in("fairlock_lost_total", `reason="lease"`), lately: 1},
		"FairlockRenewalsFail":     {series: in("fairlock_renew_total", `outcome="error"`), from: 7, lately: 1},
		"FairlockWaitsLong":        {series: "fairlock_queue_oldest_seconds" + at, from: 100, lately: 60},
		"FairlockStreamReopens":    {series: in("fairlock_stream_reopens_total", `reason="timeout"`), lately: 1},
		"FairlockStreamMisses":     {series: "fairlock_poll_wakeups_total" + at, lately: 12},
		"FairlockProcessesDie":     {series: in("fairlock_reaped_total", `kind="session"`), lately: 1},
		"FairlockCallsFail":        {series: in("fairlock_acquire_total", `kind="mutex",outcome="error"`), lately: 1},
		"FairlockQueuesNotRead":    {series: "fairlock_queue_read" + at},
		"FairlockForeignDocuments": {series: "fairlock_passed_over_total" + at, lately: 1},
		"FairlockUnobserved":       {series: "fairlock_unobserved_total" + at, lately: 1},
	}
	all := rules(t)
	require.Len(t, all, len(fires))
	for _, r := range all {
		require.Empty(t, result(t, r.Expr, quiet), "%s: in quiet operation", r.Alert)
		bad, ok := fires[r.Alert]
		require.True(t, ok, r.Alert)
		with := slices.Clone(quiet)
		i := slices.IndexFunc(with, func(c course) bool { return c.series == bad.series })
		require.GreaterOrEqual(t, i, 0, bad.series)
		with[i] = bad
		require.NotEmpty(t, result(t, r.Expr, with), r.Alert)
		for _, other := range all {
			if other.Alert != r.Alert {
				require.Empty(t, result(t, other.Expr, with), "%s at what %s is for", other.Alert, r.Alert)
			}
		}
	}
}

// result is what Prometheus's own engine makes of a query at the end of the hour.
func result(t *testing.T, query string, of []course) promql.Vector {
	t.Helper()
	p := parser.NewParser(parser.Options{})
	var series []storage.Series
	for _, c := range of {
		ls, err := p.ParseMetric(c.series)
		require.NoError(t, err)
		series = append(series, storage.NewListSeries(ls, c.samples()))
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: p})
	defer func() { require.NoError(t, engine.Close()) }()
	q, err := engine.NewInstantQuery(t.Context(), store(series), nil, query, time.Unix(minutes*60, 0))
	require.NoError(t, err)
	defer q.Close()
	got := q.Exec(t.Context())
	require.NoError(t, got.Err)
	v, err := got.Vector()
	require.NoError(t, err)
	return v
}

// store is series to query.
type store []storage.Series

func (s store) Querier(int64, int64) (storage.Querier, error) {
	return querier{storage.NoopQuerier(), s}, nil
}

type querier struct {
	storage.Querier
	all []storage.Series
}

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	s := &set{}
	for _, one := range q.all {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.Labels().Get(m.Name)) }) {
			s.left = append(s.left, one)
		}
	}
	return s
}

type set struct {
	at   storage.Series
	left []storage.Series
}

func (s *set) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *set) At() storage.Series                { return s.at }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }
