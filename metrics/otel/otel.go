package fairotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/tally"
)

// Options are what [New] can be told. nil, or the zero value, is the default.
type Options struct {
	// MeterProvider and TracerProvider are where metrics and spans go. nil: the global ones.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider

	// LockNames adds the attribute fairlock.lock to metrics of single locks. It is for programs with few names, which do not come from outside.
	// Spans have it always.
	LockNames bool

	// NoHoldSpans leaves out fairlock.hold: for programs that hold locks for days, since a span is exported when it ends. The work under the lock
	// is then a child of the caller's span.
	NoHoldSpans bool
}

// scope names this instrumentation.
const scope = "github.com/fairlock/fairlock/metrics/otel"

// Telemetry has the metrics and spans of the managers of one process. It is safe for concurrent use.
type Telemetry struct {
	tally  tally.Managers
	opts   Options
	tracer trace.Tracer
	read   metric.Registration

	acquire, lost, renew, reopens              metric.Int64Counter
	wait, hold, release, renewal, openingTimes metric.Float64Histogram
}

// New makes the instruments. The error is the meter's.
func New(o *Options) (*Telemetry, error) {
	t := &Telemetry{}
	if o != nil {
		t.opts = *o
	}
	if t.opts.MeterProvider == nil {
		t.opts.MeterProvider = otel.GetMeterProvider()
	}
	if t.opts.TracerProvider == nil {
		t.opts.TracerProvider = otel.GetTracerProvider()
	}
	t.tracer = t.opts.TracerProvider.Tracer(scope)
	m := t.opts.MeterProvider.Meter(scope)
	var errs []error
	counter := func(name string, e tally.Event) metric.Int64Counter {
		i, err := m.Int64Counter(name, metric.WithDescription(e.Help), metric.WithUnit("{"+e.Unit+"}"))
		errs = append(errs, err)
		return i
	}
	seconds := func(e tally.Event) metric.Float64Histogram {
		i, err := m.Float64Histogram("fairlock."+e.Name, metric.WithDescription(e.Help), metric.WithUnit(e.Unit),
			metric.WithExplicitBucketBoundaries(e.Bounds...))
		errs = append(errs, err)
		return i
	}
	t.acquire, t.lost = counter("fairlock.acquire", tally.Acquire), counter("fairlock.lost", tally.Lost)
	// The histogram has the name without a suffix.
	t.renew, t.reopens = counter("fairlock.renew.total", tally.Renew), counter("fairlock.stream.reopens", tally.Reopens)
	t.wait, t.hold, t.release = seconds(tally.Wait), seconds(tally.Hold), seconds(tally.Release)
	t.renewal, t.openingTimes = seconds(tally.Renewal), seconds(tally.StreamOpen)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	t.begin()
	var err error
	t.read, err = t.observeCounts(m)
	return t, err
}

// begin makes the series that alerts are about, so that the first event of them is seen as an increase.
func (t *Telemetry) begin() {
	zero := func(c metric.Int64Counter, attrs ...attribute.KeyValue) {
		c.Add(context.Background(), 0, metric.WithAttributes(attrs...))
	}
	if !t.opts.LockNames {
		for _, r := range fairlock.LossReasons() {
			zero(t.lost, attribute.String("reason", r))
		}
		for _, k := range tally.Kinds() {
			zero(t.acquire, attribute.String("kind", k), attribute.String("outcome", tally.Error))
		}
	}
	for _, o := range []string{tally.OK, tally.Error} {
		zero(t.renew, attribute.String("outcome", o))
	}
	for _, r := range tally.StreamReasons() {
		zero(t.reopens, attribute.String("reason", r))
	}
}

// Close ends the reading of the managers' counts. It is for programs that make many of these.
func (t *Telemetry) Close() error { return t.read.Unregister() }

// callKey and holdKey are keys of a context's values: the call of this Telemetry that the context is of, and the span of its hold. Other observers may have
// begun spans of their own since, so what is the context's current span says nothing about whose it is.
type (
	callKey struct{ *Telemetry }
	holdKey struct{ *Telemetry }
)

// call is an acquisition: its span, and the one around it, whose child the hold is.
type call struct{ span, outside trace.Span }

// Observer is what a manager's Config needs to be told of here. Several managers can have it.
func (t *Telemetry) Observer() *fairlock.Observer {
	return &fairlock.Observer{
		Made: t.tally.Made, Closed: t.tally.Closed,
		Acquiring: t.acquiring, Acquired: t.acquired, Ended: t.ended,
		Renewed: func(r fairlock.Renewed) {
			ctx := context.Background()
			t.renew.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", tally.Outcome(r.Err))))
			t.renewal.Record(ctx, r.Took.Seconds())
		},
		StreamOpened: func(took time.Duration) { t.openingTimes.Record(context.Background(), took.Seconds()) },
		StreamFailed: func(f fairlock.StreamFailed) {
			t.reopens.Add(context.Background(), 1, metric.WithAttributes(attribute.String("reason", f.Reason)))
		},
	}
}

func (t *Telemetry) acquiring(ctx context.Context, a fairlock.Acquiring) context.Context {
	c := call{outside: trace.SpanFromContext(ctx)}
	ctx, c.span = t.tracer.Start(ctx, "fairlock.acquire", trace.WithAttributes(
		attribute.String("fairlock.lock", a.Name), attribute.String("fairlock.kind", a.Kind),
		attribute.Int64("fairlock.units", a.Units), attribute.Bool("fairlock.try", a.Try),
	))
	return context.WithValue(ctx, callKey{t}, c)
}

func (t *Telemetry) acquired(ctx context.Context, a fairlock.Acquired) context.Context {
	outcome := a.Outcome()
	kind := attribute.String("kind", a.Kind)
	t.acquire.Add(ctx, 1, t.of(a.Name, kind, attribute.String("outcome", outcome)))
	if a.Err == nil {
		t.wait.Record(ctx, a.Waited.Seconds(), t.of(a.Name, kind))
	}
	c, ok := ctx.Value(callKey{t}).(call)
	if !ok {
		return ctx // another observer has lost it
	}
	c.span.SetAttributes(attribute.String("fairlock.outcome", outcome))
	if a.Err != nil {
		if outcome == "error" {
			c.span.RecordError(a.Err)
			c.span.SetStatus(codes.Error, a.Err.Error())
		}
		c.span.End()
		return ctx
	}
	token := attribute.Int64("fairlock.token", a.Token)
	c.span.SetAttributes(token, attribute.Int64("fairlock.ahead", a.Ahead))
	c.span.End()
	ctx = trace.ContextWithSpan(ctx, c.outside)
	if t.opts.NoHoldSpans {
		return ctx
	}
	ctx, span := t.tracer.Start(ctx, "fairlock.hold", trace.WithAttributes(
		attribute.String("fairlock.lock", a.Name), attribute.String("fairlock.kind", a.Kind), attribute.Int64("fairlock.units", a.Units), token,
	))
	return context.WithValue(ctx, holdKey{t}, span)
}

func (t *Telemetry) ended(ctx context.Context, e fairlock.Ended) {
	kind, reason := attribute.String("kind", e.Kind), e.Reason()
	t.hold.Record(ctx, e.Held.Seconds(), t.of(e.Name, kind))
	lost, handed := tally.Ending(e)
	switch {
	case lost:
		t.lost.Add(ctx, 1, t.of(e.Name, attribute.String("reason", reason)))
	case handed:
		t.release.Record(ctx, e.Handed.Seconds(), metric.WithAttributes(kind))
	}
	span, ok := ctx.Value(holdKey{t}).(trace.Span)
	if !ok {
		return // NoHoldSpans, or another observer has lost it
	}
	span.SetAttributes(attribute.String("fairlock.reason", reason))
	if lost {
		span.SetStatus(codes.Error, e.Err.Error())
	}
	span.End()
}

// of is the attributes of a measurement, with the lock's name where it is one.
func (t *Telemetry) of(name string, attrs ...attribute.KeyValue) metric.MeasurementOption {
	if t.opts.LockNames {
		attrs = append(attrs, attribute.String("fairlock.lock", name))
	}
	return metric.WithAttributes(attrs...)
}
