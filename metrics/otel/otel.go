package fairotel

import (
	"context"
	"errors"

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
	tally  *tally.Metrics
	opts   Options
	tracer trace.Tracer
	read   metric.Registration
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
	lock := ""
	if t.opts.LockNames {
		lock = "fairlock.lock"
	}
	var errs []error
	t.tally = tally.New(lock, func(e tally.Event) tally.Metric {
		made, err := event(m, e)
		if err != nil {
			errs = append(errs, err)
			return func([]string) tally.Series { return nil } // there will be no observer
		}
		return made
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var err error
	t.read, err = t.observeCounts(m)
	return t, err
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
	return fairlock.Observers(t.tally.Observer(), &fairlock.Observer{Acquiring: t.acquiring, Acquired: t.acquired, Ended: t.ended})
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
	c, ok := ctx.Value(callKey{t}).(call)
	if !ok {
		return ctx // another observer has lost it
	}
	outcome := a.Outcome()
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
	span, ok := ctx.Value(holdKey{t}).(trace.Span)
	if !ok {
		return // NoHoldSpans, or another observer has lost it
	}
	span.SetAttributes(attribute.String("fairlock.reason", e.Reason()))
	if errors.Is(e.Err, fairlock.ErrLost) {
		span.SetStatus(codes.Error, e.Err.Error())
	}
	span.End()
}
