package fairotel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/fairlocktest"
	fairotel "github.com/fairlock/fairlock/metrics/otel"
)

// bed has the SDK's own reader and recorder.
type bed struct {
	*testing.T
	tel     *fairotel.Telemetry
	reader  *sdkmetric.ManualReader
	spans   *tracetest.SpanRecorder
	tracers trace.TracerProvider
	tracer  trace.Tracer
}

func bubble(t *testing.T, o fairotel.Options, f func(*bed)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{T: t, reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
		meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.reader))
		tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(b.spans))
		o.MeterProvider, o.TracerProvider = meters, tracers
		b.tracers, b.tracer = tracers, tracers.Tracer("test")
		var err error
		b.tel, err = fairotel.New(&o)
		require.NoError(t, err)
		f(b)
		require.NoError(t, b.tel.Close())
		require.NoError(t, meters.Shutdown(context.WithoutCancel(t.Context())))
		require.NoError(t, tracers.Shutdown(context.WithoutCancel(t.Context())))
	})
}

func (b *bed) manager(s *fairlocktest.Server) *fairlock.Manager {
	return s.Manager(b, &fairlock.Config{Observer: b.tel.Observer()})
}

// span is the one span of a name that has ended.
func (b *bed) span(name string) sdktrace.ReadOnlySpan {
	b.Helper()
	var found sdktrace.ReadOnlySpan
	for _, s := range b.spans.Ended() {
		if s.Name() == name {
			require.Nil(b, found, "two spans "+name)
			found = s
		}
	}
	require.NotNil(b, found, name)
	return found
}

// metrics are all by name.
func (b *bed) metrics() map[string]metricdata.Aggregation {
	b.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(b, b.reader.Collect(context.WithoutCancel(b.Context()), &rm))
	all := map[string]metricdata.Aggregation{}
	for _, s := range rm.ScopeMetrics {
		for _, m := range s.Metrics {
			all[m.Name] = m.Data
		}
	}
	return all
}

// points is the value of each series, by its attributes: of a histogram its count.
func points(t *testing.T, a metricdata.Aggregation) map[string]int64 {
	t.Helper()
	got := map[string]int64{}
	key := func(s attribute.Set) string { return s.Encoded(attribute.DefaultEncoder()) }
	switch a := a.(type) {
	case metricdata.Sum[int64]:
		for _, p := range a.DataPoints {
			got[key(p.Attributes)] = p.Value
		}
	case metricdata.Gauge[int64]:
		for _, p := range a.DataPoints {
			got[key(p.Attributes)] = p.Value
		}
	case metricdata.Histogram[float64]:
		for _, p := range a.DataPoints {
			got[key(p.Attributes)] = int64(p.Count)
		}
	default:
		require.Fail(t, "no such metric")
	}
	return got
}

// nonzero leaves out series to which nothing has happened.
func nonzero(of map[string]int64) map[string]int64 {
	maps.DeleteFunc(of, func(_ string, n int64) bool { return n == 0 })
	return of
}

func attrs(s sdktrace.ReadOnlySpan) map[attribute.Key]string {
	got := map[attribute.Key]string{}
	for _, a := range s.Attributes() {
		got[a.Key] = a.Value.String()
	}
	return got
}

func TestSpansOfALock(t *testing.T) {
	bubble(t, fairotel.Options{}, func(b *bed) {
		srv := fairlocktest.NewServer()
		m, other := b.manager(srv), srv.Manager(b, nil)
		first, err := other.Lock(b.Context(), "x")
		require.NoError(b, err)
		time.AfterFunc(3*time.Second, func() { require.NoError(b, first.Unlock(b.Context())) })

		ctx, outer := b.tracer.Start(b.Context(), "outer")
		err = m.Do(ctx, "x", func(ctx context.Context) error {
			_, work := b.tracer.Start(ctx, "work")
			time.Sleep(2 * time.Second)
			work.End()
			return nil
		})
		require.NoError(b, err)
		outer.End()

		acquire, hold, work := b.span("fairlock.acquire"), b.span("fairlock.hold"), b.span("work")
		parent := outer.SpanContext().SpanID()
		require.Equal(b, parent, acquire.Parent().SpanID())
		require.Equal(b, parent, hold.Parent().SpanID())
		require.Equal(b, hold.SpanContext().SpanID(), work.Parent().SpanID())
		require.Equal(b, 3*time.Second, acquire.EndTime().Sub(acquire.StartTime()))
		require.Equal(b, 2*time.Second, hold.EndTime().Sub(hold.StartTime()))
		got := attrs(acquire)
		require.Equal(b, "x", got["fairlock.lock"])
		require.Equal(b, "granted", got["fairlock.outcome"])
		require.Equal(b, "1", got["fairlock.ahead"])
		require.Equal(b, got["fairlock.token"], attrs(hold)["fairlock.token"])
		require.Equal(b, "unlocked", attrs(hold)["fairlock.reason"])
		require.Equal(b, codes.Unset, hold.Status().Code)
	})
}

func TestSpansOfFailures(t *testing.T) {
	bubble(t, fairotel.Options{}, func(b *bed) {
		srv := fairlocktest.NewServer()
		m := b.manager(srv)
		l, err := m.Lock(b.Context(), "x", fairlock.MaxHold(time.Second))
		require.NoError(b, err)
		_, err = m.TryLock(b.Context(), "x")
		require.ErrorIs(b, err, fairlock.ErrBusy)
		_, err = m.Lock(l.Context(), "x")
		require.ErrorIs(b, err, fairlock.ErrReentrant)
		time.Sleep(2 * time.Second)
		require.ErrorIs(b, l.Unlock(b.Context()), fairlock.ErrLost)

		hold := b.span("fairlock.hold")
		require.Equal(b, codes.Error, hold.Status().Code)
		require.Equal(b, "max_hold", attrs(hold)["fairlock.reason"])
		require.Equal(b, time.Second, hold.EndTime().Sub(hold.StartTime()))
		status := map[string]codes.Code{}
		for _, s := range b.spans.Ended() {
			if s.Name() == "fairlock.acquire" {
				status[attrs(s)["fairlock.outcome"]] = s.Status().Code
			}
		}
		require.Equal(b, map[string]codes.Code{"granted": codes.Unset, "busy": codes.Unset, "error": codes.Error}, status)
		require.Len(b, b.spans.Ended(), len(b.spans.Started()), "each span that begins ends")

		got := b.metrics()
		require.Equal(b, map[string]int64{
			"kind=mutex,outcome=granted": 1,
			"kind=mutex,outcome=busy":    1,
			"kind=mutex,outcome=error":   1,
		}, nonzero(points(b.T, got["fairlock.acquire"])))
		require.Equal(b, map[string]int64{"reason=max_hold": 1}, nonzero(points(b.T, got["fairlock.lost"])))
		require.Len(b, points(b.T, got["fairlock.lost"]), len(fairlock.LossReasons()), "there before the first loss")
		require.Equal(b, map[string]int64{"": 0}, points(b.T, got["fairlock.held"]))
		require.Equal(b, map[string]int64{"kind=mutex": 1}, points(b.T, got["fairlock.hold"]))
		require.NotContains(b, got, "fairlock.release", "nothing was given back in time")
	})
}

func TestNamesAndNoHoldSpans(t *testing.T) {
	bubble(t, fairotel.Options{LockNames: true, NoHoldSpans: true}, func(b *bed) {
		m := b.manager(fairlocktest.NewServer())
		ctx, outer := b.tracer.Start(b.Context(), "outer")
		l, err := m.Lock(ctx, "x")
		require.NoError(b, err)
		require.Equal(b, outer.SpanContext().SpanID(), trace.SpanFromContext(l.Context()).SpanContext().SpanID())
		require.NoError(b, l.Unlock(ctx))
		require.True(b, outer.IsRecording(), "it is the caller's to end")
		outer.End()
		require.Len(b, b.spans.Ended(), 2)
		wait := points(b.T, b.metrics()["fairlock.wait"])
		require.Equal(b, map[string]int64{"fairlock.lock=x,kind=mutex": 1}, wait)
	})
}

func TestRenewalsAndCounts(t *testing.T) {
	bubble(t, fairotel.Options{}, func(b *bed) {
		srv := fairlocktest.NewServer()
		p := srv.Process(b, &fairlock.Config{Observer: b.tel.Observer()})
		l, err := p.Lock(b.Context(), "x")
		require.NoError(b, err)
		time.Sleep(65 * time.Second) // renewed every 10 s
		p.Cut()
		time.Sleep(10 * time.Second)
		p.Heal()
		time.Sleep(time.Minute)
		require.NoError(b, l.Unlock(b.Context()))
		synctest.Wait()
		got := b.metrics()
		renewals := points(b.T, got["fairlock.renew.total"])
		ok, failed := renewals["outcome=ok"], renewals["outcome=error"]
		require.Greater(b, ok, int64(8))
		require.Positive(b, failed)
		require.Equal(b, ok+failed, points(b.T, got["fairlock.renew"])[""])
		require.EqualValues(b, 1, points(b.T, got["fairlock.managers"])[""])
		require.Positive(b, points(b.T, got["fairlock.writes"])["kind=enqueue"])
		require.NoError(b, p.Close(b.Context()))
	})
}

// TestGlobalProviders: without providers of its own it uses the global ones, which do nothing until the program sets them.
func TestGlobalProviders(t *testing.T) {
	t.Parallel()
	tel, err := fairotel.New(nil)
	require.NoError(t, err)
	m := fairlocktest.New(t, &fairlock.Config{Observer: tel.Observer()})
	require.NoError(t, m.Do(t.Context(), "x", func(context.Context) error { return nil }))
	require.NoError(t, tel.Close())
}

// broken has a meter that makes no counters.
type broken struct{ noop.MeterProvider }

func (broken) Meter(string, ...metric.MeterOption) metric.Meter { return noCounters{} }

type noCounters struct{ noop.Meter }

var errNoCounters = errors.New("no counters")

func (noCounters) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errNoCounters
}

func TestMeterThatFails(t *testing.T) {
	t.Parallel()
	_, err := fairotel.New(&fairotel.Options{MeterProvider: broken{}})
	require.ErrorIs(t, err, errNoCounters)
}

// TestSpansOfOthers: whatever other observers do to contexts, a span that is not ours is not ended here, and each of ours ends.
func TestSpansOfOthers(t *testing.T) {
	bubble(t, fairotel.Options{}, func(b *bed) {
		second, err := fairotel.New(&fairotel.Options{MeterProvider: sdkmetric.NewMeterProvider(), TracerProvider: b.tracers})
		require.NoError(b, err)
		own := &fairlock.Observer{
			Acquiring: func(ctx context.Context, _ fairlock.Acquiring) context.Context {
				ctx, span := b.tracer.Start(ctx, "theirs")
				b.Cleanup(func() { span.End() })
				return ctx
			},
			Acquired: func(ctx context.Context, _ fairlock.Acquired) context.Context {
				ctx, span := b.tracer.Start(ctx, "theirs")
				b.Cleanup(func() { span.End() })
				return ctx
			},
		}
		m := fairlocktest.New(b, &fairlock.Config{Observer: fairlock.Observers(b.tel.Observer(), second.Observer(), own)})
		ctx, outer := b.tracer.Start(b.Context(), "outer")
		held, err := m.Lock(ctx, "x")
		require.NoError(b, err)
		_, err = m.TryLock(ctx, "x")
		require.ErrorIs(b, err, fairlock.ErrBusy)
		require.NoError(b, held.Unlock(ctx))
		lost, err := m.Lock(ctx, "x", fairlock.MaxHold(time.Second))
		require.NoError(b, err)
		time.Sleep(2 * time.Second)
		require.ErrorIs(b, lost.Err(), fairlock.ErrLost)
		ended := map[string]int{}
		for _, s := range b.spans.Ended() {
			ended[s.Name()]++
		}
		require.Equal(b, map[string]int{"fairlock.acquire": 2 * 3, "fairlock.hold": 2 * 2}, ended)
		require.True(b, outer.IsRecording())
		outer.End()
		require.NoError(b, second.Close())
	})
}

// TestSpansWhenAContextIsLost: an observer that returns a context of its own costs spans, and nothing else.
func TestSpansWhenAContextIsLost(t *testing.T) {
	for _, noHold := range []bool{false, true} {
		t.Run(fmt.Sprint(noHold), func(t *testing.T) {
			bubble(t, fairotel.Options{NoHoldSpans: noHold}, func(b *bed) {
				ctx, outer := b.tracer.Start(b.Context(), "outer")
				loses := &fairlock.Observer{
					Acquiring: func(context.Context, fairlock.Acquiring) context.Context { return ctx },
					Acquired:  func(context.Context, fairlock.Acquired) context.Context { return ctx },
				}
				m := fairlocktest.New(b, &fairlock.Config{Observer: fairlock.Observers(b.tel.Observer(), loses)})
				require.NoError(b, m.Do(ctx, "x", func(context.Context) error { return nil }))
				require.True(b, outer.IsRecording(), "it is the caller's to end")
				outer.End()
				require.Equal(b, map[string]int64{"kind=mutex,outcome=granted": 1}, nonzero(points(b.T, b.metrics()["fairlock.acquire"])))
			})
		})
	}
}

// TestWhatLockAllUndoes is held and not given back by anybody.
func TestWhatLockAllUndoes(t *testing.T) {
	bubble(t, fairotel.Options{}, func(b *bed) {
		srv := fairlocktest.NewServer()
		held, err := srv.Manager(b, nil).Lock(b.Context(), "b")
		require.NoError(b, err)
		_, err = b.manager(srv).LockAll(b.Context(), []string{"a", "b"}, fairlock.MaxWait(time.Second))
		require.ErrorIs(b, err, fairlock.ErrWaitLimit)
		synctest.Wait()
		require.NoError(b, held.Unlock(b.Context()))
		require.Equal(b, "undone", attrs(b.span("fairlock.hold"))["fairlock.reason"])
		got := b.metrics()
		require.Equal(b, map[string]int64{"kind=mutex": 1}, points(b.T, got["fairlock.hold"]))
		require.NotContains(b, got, "fairlock.release")
		require.Empty(b, nonzero(points(b.T, got["fairlock.lost"])))
	})
}

// TestGaugesAreSums: what processes have adds up, so it is an up-down counter and no gauge.
func TestGaugesAreSums(t *testing.T) {
	bubble(t, fairotel.Options{}, func(b *bed) {
		b.manager(fairlocktest.NewServer())
		got := b.metrics()
		for _, name := range []string{"fairlock.held", "fairlock.waiting", "fairlock.managers", "fairlock.streams"} {
			sum, ok := got[name].(metricdata.Sum[int64])
			require.True(b, ok, name)
			require.False(b, sum.IsMonotonic, name)
		}
	})
}
