package fairprom

import (
	"context"
	"slices"
	"strings"
	"time"

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
	tally   tally.Managers
	names   bool
	events  []prometheus.Collector // of what the observer tells
	counts  []count                // of fairlock.Stats
	acquire *prometheus.CounterVec
	wait    *prometheus.HistogramVec
	hold    *prometheus.HistogramVec
	release *prometheus.HistogramVec
	lost    *prometheus.CounterVec
	renew   *prometheus.CounterVec
	renewal prometheus.Observer
	reopens *prometheus.CounterVec
	opening prometheus.Observer
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
	c := &Collector{names: opts.LockNames}
	c.makeEvents(opts)
	c.makeCounts(opts)
	// Series that are there from the beginning, so that the first of them is seen as an increase.
	if !c.names {
		for _, r := range fairlock.LossReasons() {
			c.lost.WithLabelValues(r)
		}
		for _, k := range tally.Kinds() {
			c.acquire.WithLabelValues(k, tally.Error)
		}
	}
	for _, r := range []string{tally.OK, tally.Error} {
		c.renew.WithLabelValues(r)
	}
	for _, r := range tally.StreamReasons() {
		c.reopens.WithLabelValues(r)
	}
	return c
}

func (c *Collector) makeEvents(o Options) {
	c.acquire, c.lost, c.renew, c.reopens = c.counter(tally.Acquire, o), c.counter(tally.Lost, o), c.counter(tally.Renew, o), c.counter(tally.Reopens, o)
	wait, hold := tally.Wait, tally.Hold
	if o.WaitBuckets != nil {
		wait.Bounds = o.WaitBuckets
	}
	if o.HoldBuckets != nil {
		hold.Bounds = o.HoldBuckets
	}
	c.wait, c.hold, c.release = c.histogram(wait, o), c.histogram(hold, o), c.histogram(tally.Release, o)
	c.renewal, c.opening = c.histogram(tally.Renewal, o).WithLabelValues(), c.histogram(tally.StreamOpen, o).WithLabelValues()
}

func (c *Collector) counter(e tally.Event, o Options) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name(e.Name) + "_total", Help: e.Help, ConstLabels: o.ConstLabels}, c.labels(e))
	c.events = append(c.events, v)
	return v
}

func (c *Collector) histogram(e tally.Event, o Options) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name(e.Name) + "_seconds", Help: e.Help, Buckets: e.Bounds, ConstLabels: o.ConstLabels,
	}, c.labels(e))
	c.events = append(c.events, v)
	return v
}

func (c *Collector) labels(e tally.Event) []string {
	if c.names && e.Named {
		return append(slices.Clone(e.Labels), "lock")
	}
	return e.Labels
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
func (c *Collector) Observer() *fairlock.Observer {
	return &fairlock.Observer{
		Made: c.tally.Made, Closed: c.tally.Closed,
		Acquired: func(ctx context.Context, a fairlock.Acquired) context.Context {
			c.acquire.WithLabelValues(c.named(a.Name, a.Kind, a.Outcome())...).Inc()
			if a.Err == nil {
				c.wait.WithLabelValues(c.named(a.Name, a.Kind)...).Observe(a.Waited.Seconds())
			}
			return ctx
		},
		Ended: func(_ context.Context, e fairlock.Ended) {
			c.hold.WithLabelValues(c.named(e.Name, e.Kind)...).Observe(e.Held.Seconds())
			switch lost, handed := tally.Ending(e); {
			case lost:
				c.lost.WithLabelValues(c.named(e.Name, e.Reason())...).Inc()
			case handed:
				c.release.WithLabelValues(e.Kind).Observe(e.Handed.Seconds())
			}
		},
		Renewed: func(r fairlock.Renewed) {
			c.renew.WithLabelValues(tally.Outcome(r.Err)).Inc()
			c.renewal.Observe(r.Took.Seconds())
		},
		StreamOpened: func(took time.Duration) { c.opening.Observe(took.Seconds()) },
		StreamFailed: func(f fairlock.StreamFailed) { c.reopens.WithLabelValues(f.Reason).Inc() },
	}
}

// named is the values of labels, with the lock's name where it is one.
func (c *Collector) named(name string, labels ...string) []string {
	if c.names {
		labels = append(labels, name)
	}
	return labels
}

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
