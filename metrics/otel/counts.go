package fairotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fairlock/fairlock/internal/tally"
)

// count is one series that is read from the sum of the managers' statistics.
type count struct {
	to    metric.Int64Observable
	of    func(*tally.Sum) int64
	attrs metric.MeasurementOption
}

// observeCounts has the meter read what managers count themselves.
func (t *Telemetry) observeCounts(m metric.Meter) (metric.Registration, error) {
	var all []count
	var instruments []metric.Observable
	var errs []error
	for _, c := range tally.Counts() {
		var i metric.Int64Observable
		var err error
		name, help, unit := "fairlock."+c.Name, metric.WithDescription(c.Help), metric.WithUnit("{"+c.Unit+"}")
		if c.Gauge {
			i, err = m.Int64ObservableUpDownCounter(name, help, unit) // it adds up over processes
		} else {
			i, err = m.Int64ObservableCounter(name, help, unit)
		}
		errs = append(errs, err)
		instruments = append(instruments, i)
		for value, of := range c.Of {
			attrs := metric.WithAttributes()
			if c.Label != "" {
				attrs = metric.WithAttributes(attribute.String(c.Label, value))
			}
			all = append(all, count{to: i, of: of, attrs: attrs})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		sum := t.tally.Sum()
		for _, c := range all {
			o.ObserveInt64(c.to, c.of(&sum), c.attrs)
		}
		return nil
	}, instruments...)
}
