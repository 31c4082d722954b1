package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/fairlocktest"
	fairprom "github.com/fairlock/fairlock/metrics/prometheus"
)

// life has everything happen that metrics tell of, with observers of two processes, and ends with somebody in line.
func life(t *testing.T, observer *fairlock.Observer, then func(*fairlock.Manager)) {
	t.Helper()
	ctx := t.Context()
	srv := fairlocktest.NewServer()
	cfg := func(most int) *fairlock.Config { return &fairlock.Config{Observer: observer, MaxCalls: most} }
	a, b := srv.Process(t, cfg(0)), srv.Process(t, cfg(1))
	held, err := a.Lock(ctx, "x")
	require.NoError(t, err)
	_, err = b.TryLock(ctx, "x")
	require.ErrorIs(t, err, fairlock.ErrBusy)
	_, err = b.Lock(ctx, "x", fairlock.MaxWait(time.Second))
	require.ErrorIs(t, err, fairlock.ErrWaitLimit)
	_, err = a.Lock(held.Context(), "x")
	require.ErrorIs(t, err, fairlock.ErrReentrant)
	waits, cancel := context.WithCancel(ctx)
	go func() {
		_, err := b.Lock(waits, "x")
		require.ErrorIs(t, err, context.Canceled)
	}()
	synctest.Wait()
	_, err = b.Lock(ctx, "x")
	require.ErrorIs(t, err, fairlock.ErrTooManyWaiters)
	time.Sleep(5 * time.Second)
	cancel()
	synctest.Wait()
	require.NoError(t, held.Unlock(ctx))

	s, err := a.Semaphore("s", 4)
	require.NoError(t, err)
	rw, err := a.RWLock("rw")
	require.NoError(t, err)
	for _, take := range []func() (*fairlock.Lock, error){
		func() (*fairlock.Lock, error) { return s.Acquire(ctx, 2) },
		func() (*fairlock.Lock, error) { return rw.Lock(ctx) },
		func() (*fairlock.Lock, error) { return rw.RLock(ctx) },
	} {
		l, err := take()
		require.NoError(t, err)
		require.NoError(t, l.Unlock(ctx))
	}
	lost, err := b.Lock(ctx, "x")
	require.NoError(t, err)
	time.Sleep(5 * time.Second)
	b.Cut()
	next, err := a.Lock(ctx, "x")
	require.NoError(t, err)
	b.Heal()
	require.ErrorIs(t, lost.Unlock(ctx), fairlock.ErrLost)

	waits, cancel = context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, err := b.Lock(waits, "x")
		require.ErrorIs(t, err, context.Canceled)
	}()
	time.Sleep(2 * time.Second)
	b.Cut() // ends its change stream
	time.Sleep(time.Second)
	b.Heal()
	time.Sleep(10 * time.Second)
	then(a.Manager)
	cancel()
	synctest.Wait()
	require.NoError(t, next.Unlock(ctx))
}

// metric is one metric of the collectors: its type, and the values that each of its labels has.
type metric struct {
	kind   dto.MetricType
	labels map[string][]string
}

// gathered is all metrics that a gatherer has, by name.
func gathered(t *testing.T, g prometheus.Gatherer) map[string]metric {
	t.Helper()
	families, err := g.Gather()
	require.NoError(t, err)
	all := map[string]metric{}
	for _, f := range families {
		m := metric{f.GetType(), map[string][]string{}}
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if !slices.Contains(m.labels[l.GetName()], l.GetValue()) {
					m.labels[l.GetName()] = append(m.labels[l.GetName()], l.GetValue())
				}
			}
		}
		for _, values := range m.labels {
			slices.Sort(values)
		}
		all[f.GetName()] = m
	}
	return all
}

// collected is what the collectors bring after life. With names they have the label lock.
func collected(t *testing.T, names bool) (all map[string]metric) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := fairprom.New(&fairprom.Options{LockNames: names})
		life(t, c.Observer(), func(m *fairlock.Manager) {
			reg := prometheus.NewPedanticRegistry()
			reg.MustRegister(c, fairprom.NewQueues(m, &fairprom.QueueOptions{LockNames: names}))
			all = gathered(t, reg)
		})
	})
	return all
}

// series are the names of the series of a metric.
func (m metric) series(name string) []string {
	if m.kind == dto.MetricType_HISTOGRAM {
		return []string{name + "_bucket", name + "_sum", name + "_count"}
	}
	return []string{name}
}

// catalogue is the metrics by the names of their series.
func catalogue(all map[string]metric) map[string]metric {
	got := map[string]metric{}
	for name, m := range all {
		for _, s := range m.series(name) {
			got[s] = m
		}
	}
	return got
}

// target is what Prometheus itself adds to each series.
var target = []string{"job", "instance"}

// selects reports whether matchers select series that there are, and their name.
func selects(all map[string]metric, matchers []*labels.Matcher) (name string, err error) {
	for _, m := range matchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			name = m.Value
		}
	}
	of, ok := all[name]
	if !ok {
		return name, fmt.Errorf("no collector has the metric %q", name)
	}
	for _, m := range matchers {
		if m.Name == model.MetricNameLabel || slices.Contains(target, m.Name) {
			continue
		}
		if !slices.ContainsFunc(of.labels[m.Name], m.Matches) {
			return name, fmt.Errorf("%s: no series has %s", name, m)
		}
	}
	return name, nil
}

// variables are the dashboard's, as Grafana would fill them in.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*")

// judge reports whether a query can be parsed and selects and groups by what is there: also by the label lock, where a metric has that on request. It
// returns the names of its series.
func judge(plain, named map[string]metric, query string) (names []string, err error) {
	query = variables.Replace(query)
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return nil, err
	}
	var errs []error
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			name, err := selects(plain, n.LabelMatchers)
			names, errs = append(names, name), append(errs, err)
		case *parser.AggregateExpr:
			parser.Inspect(n.Expr, func(in parser.Node, _ []parser.Node) error {
				if v, ok := in.(*parser.VectorSelector); ok {
					for _, label := range n.Grouping {
						known := slices.Contains(target, label) || label == "le" && strings.HasSuffix(v.Name, "_bucket")
						if _, ok := named[v.Name].labels[label]; !ok && !known {
							errs = append(errs, fmt.Errorf("%s has no label %s", v.Name, label))
						}
					}
				}
				return nil
			})
		}
		return nil
	})
	return names, errors.Join(errs...)
}

// TestQueriesForNothing: what judge is for.
func TestQueriesForNothing(t *testing.T) {
	t.Parallel()
	all := catalogue(collected(t, true))
	for _, bad := range []string{
		`sum(fairlock_no_such_total)`, `sum(fairlock_wait_seconds)`, `sum by (nothing) (fairlock_held)`, `fairlock_lost_total{why="lease"}`,
		`fairlock_lost_total{reason="leased"}`, `sum(fairlock_held`, `sum by (le) (fairlock_held)`, `rate(fairlock_lost_total[$range])`,
	} {
		_, err := judge(all, all, bad)
		require.Error(t, err, bad)
	}
	names, err := judge(all, all, `sum by (reason, job) (rate(fairlock_lost_total{reason="lease"}[5m])) / sum(fairlock_held)`)
	require.NoError(t, err)
	require.Equal(t, []string{"fairlock_lost_total", "fairlock_held"}, names)
}
