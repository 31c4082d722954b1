package gateway

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fairlock/fairlock/internal/tally"
)

// exposition is text as Prometheus reads it, version 0.0.4. Names, label values and help texts are constants of this module without anything
// that would have to be escaped; metrics/check reads it with Prometheus' own parser.
type exposition struct{ bytes.Buffer }

const expositionType = "text/plain; version=0.0.4; charset=utf-8"

// family begins a metric.
func (e *exposition) family(name, kind, help string) {
	e.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

// sample is one series of it. labels is name, value, ...
func (e *exposition) sample(name string, value string, labels ...string) {
	e.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		e.WriteString(map[bool]string{true: "{", false: ","}[i == 0] + labels[i] + `="` + labels[i+1] + `"`)
	}
	if len(labels) > 0 {
		e.WriteByte('}')
	}
	e.WriteString(" " + value + "\n")
}

func (e *exposition) gauge(name, help string, n int64) {
	e.family(name, "gauge", help)
	e.sample(name, strconv.FormatInt(n, 10))
}

// metricName is a name as tally has it, without its suffix.
func metricName(parts string) string { return "fairlock_" + strings.ReplaceAll(parts, ".", "_") }

// counts writes what is read from managers' own statistics.
func (e *exposition) counts(sum *tally.Sum) {
	for _, c := range tally.Counts() {
		name, kind := metricName(c.Name)+"_total", "counter"
		if c.Gauge {
			name, kind = metricName(c.Name), "gauge"
		}
		e.family(name, kind, c.Help)
		for _, value := range slices.Sorted(maps.Keys(c.Of)) {
			var labels []string
			if c.Label != "" {
				labels = []string{c.Label, value}
			}
			e.sample(name, strconv.FormatInt(c.Of[value](sum), 10), labels...)
		}
	}
}

// series are those of one metric of what an observer is told: a counter, or a histogram if it has bounds. It is safe for concurrent use.
type series struct {
	tally.Event

	mu  sync.Mutex // guards all below
	all []*point
}

// point is one series. Their number is bounded by the words that labels can have.
type point struct {
	values  []string
	n       uint64
	sum     float64
	buckets []uint64 // each with what is at most its bound and above that of the one before
}

// begin is the metric's [tally.Metric].
func (s *series) begin(values []string) tally.Series {
	p := &point{values: values, buckets: make([]uint64, len(s.Bounds))}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, p)
	return func(_ context.Context, seconds float64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.n++
		p.sum += seconds
		if i, _ := slices.BinarySearch(s.Bounds, seconds); i < len(p.buckets) {
			p.buckets[i]++
		}
	}
}

func (s *series) writeTo(e *exposition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, kind := metricName(s.Name)+"_total", "counter"
	if s.Bounds != nil {
		name, kind = metricName(s.Name)+"_seconds", "histogram"
	}
	if len(s.all) == 0 {
		return // as of Prometheus' own library
	}
	e.family(name, kind, s.Help)
	slices.SortFunc(s.all, func(a, b *point) int { return slices.Compare(a.values, b.values) })
	for _, p := range s.all {
		var labels []string
		for i, l := range s.Labels {
			labels = append(labels, l, p.values[i])
		}
		count := strconv.FormatUint(p.n, 10)
		if s.Bounds == nil {
			e.sample(name, count, labels...)
			continue
		}
		up := uint64(0)
		for i, bound := range s.Bounds {
			up += p.buckets[i]
			e.sample(name+"_bucket", strconv.FormatUint(up, 10), append(slices.Clip(labels), "le", strconv.FormatFloat(bound, 'g', -1, 64))...)
		}
		e.sample(name+"_bucket", count, append(slices.Clip(labels), "le", "+Inf")...)
		e.sample(name+"_sum", strconv.FormatFloat(p.sum, 'g', -1, 64), labels...)
		e.sample(name+"_count", count, labels...)
	}
}
