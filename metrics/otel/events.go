package fairotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fairlock/fairlock/internal/tally"
)

// event makes a metric of what the observer is told.
func event(m metric.Meter, e tally.Event) (tally.Metric, error) {
	name, help, unit := "fairlock."+e.Name, metric.WithDescription(e.Help), metric.WithUnit(e.Unit)
	if e.Bounds == nil {
		if e.Name == "renew" {
			name += ".total" // the histogram has the name without a suffix
		}
		counter, err := m.Int64Counter(name, help, metric.WithUnit("{"+e.Unit+"}"))
		return func(values []string) tally.Series {
			of := attributes(e, values)
			counter.Add(context.Background(), 0, of)
			return func(ctx context.Context, _ float64) { counter.Add(ctx, 1, of) }
		}, err
	}
	histogram, err := m.Float64Histogram(name, help, unit, metric.WithExplicitBucketBoundaries(e.Bounds...))
	return func(values []string) tally.Series {
		of := attributes(e, values)
		return func(ctx context.Context, seconds float64) { histogram.Record(ctx, seconds, of) }
	}, err
}

// attributes are those of the series whose labels have these values.
func attributes(e tally.Event, values []string) metric.MeasurementOption {
	var all []attribute.KeyValue
	for i, v := range values {
		all = append(all, attribute.String(e.Labels[i], v))
	}
	return metric.WithAttributeSet(attribute.NewSet(all...))
}
