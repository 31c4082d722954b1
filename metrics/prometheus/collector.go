package fairprom

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/tally"
)

// Options are what a [Collector] can be told. nil, or the zero value, is the default.
type Options struct {
	// LockNames adds the label lock to metrics of single locks: to those of acquisitions, waits, holds, and losses. It is for programs with
	// few names, which do not come from outside: each name is some fifty time series, for as long as the process lives.
	LockNames bool

	// WaitBuckets and HoldBuckets are the upper bounds of the histograms of waits and holds, in seconds. nil: from 1 ms to 10 minutes.
	WaitBuckets, HoldBuckets []float64

	// ConstLabels are added to all metrics.
	ConstLabels prometheus.Labels
}

// Collector has the metrics of the managers of one process. It is a [prometheus.Collector], and safe for concurrent use.
type Collector struct {
	tally  *tally.Metrics
	events []prometheus.Collector // of what the observer tells
	counts []count                // of fairlock.Stats
}

// count is one time series that is read from the sum of the managers' statistics.
type count struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	of     func(*tally.Sum) int64
	labels []string
}

// New returns a collector. It is registered by its user, and takes in what it is told by [Collector.Observer].
func New(o *Options) *Collector {
	var opts Options
	if o != nil {
		opts = *o
	}
	c, lock := &Collector{}, ""
	if opts.LockNames {
		lock = "lock"
	}
	c.tally = tally.New(lock, func(e tally.Event) tally.Metric { return c.event(e, opts) })
	c.makeCounts(opts)
	return c
}

// event adds a metric of what the observer tells.
func (c *Collector) event(e tally.Event, o Options) tally.Metric {
	if e.Bounds == nil {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name(e.Name) + "_total", Help: e.Help, ConstLabels: o.ConstLabels}, e.Labels)
		c.events = append(c.events, v)
		return func(values []string) tally.Series {
			counter := v.WithLabelValues(values...)
			return func(context.Context, float64) { counter.Inc() }
		}
	}
	if own := map[string][]float64{"wait": o.WaitBuckets, "hold": o.HoldBuckets}[e.Name]; own != nil {
		e.Bounds = own
	}
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name(e.Name) + "_seconds", Help: e.Help, Buckets: e.Bounds, ConstLabels: o.ConstLabels,
	}, e.Labels)
	c.events = append(c.events, v)
	return func(values []string) tally.Series {
		histogram := v.WithLabelValues(values...)
		return func(_ context.Context, seconds float64) { histogram.Observe(seconds) }
	}
}

// makeCounts lists what is read from the managers' own counts.
func (c *Collector) makeCounts(o Options) {
	for _, m := range tally.Counts() {
		full, kind := name(m.Name)+"_total", prometheus.CounterValue
		if m.Gauge {
			full, kind = name(m.Name), prometheus.GaugeValue
		}
		var labels []string
		if m.Label != "" {
			labels = []string{m.Label}
		}
		desc := prometheus.NewDesc(full, m.Help, labels, o.ConstLabels)
		for value, of := range m.Of {
			n := count{desc: desc, kind: kind, of: of}
			if m.Label != "" {
				n.labels = []string{value}
			}
			c.counts = append(c.counts, n)
		}
	}
}

// name is the name of a metric, without its suffix.
func name(parts string) string { return "fairlock_" + strings.ReplaceAll(parts, ".", "_") }

// Observer is what a manager's Config needs to be counted here. Several managers can have it.
func (c *Collector) Observer() *fairlock.Observer { return c.tally.Observer() }

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, e := range c.events {
		e.Describe(to)
	}
	for _, n := range c.counts {
		to <- n.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for _, e := range c.events {
		e.Collect(to)
	}
	sum := c.tally.Sum()
	for _, n := range c.counts {
		to <- prometheus.MustNewConstMetric(n.desc, n.kind, float64(n.of(&sum)), n.labels...)
	}
}
