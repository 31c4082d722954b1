package waiter_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/waiter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	opTimeout = 5 * time.Second
	await     = 3 * time.Second
	recheck   = 2 * time.Second
	linger    = 5 * time.Second
	poll      = 100 * time.Millisecond
)

// bed is a store, a watcher on it, and what the watcher said.
type bed struct {
	t   *testing.T
	ctx context.Context
	clk *memstore.Clock
	srv *memstore.Server
	*memstore.Client
	w *waiter.Watcher

	mu   sync.Mutex // guards both below
	said []waiter.Notice
	ops  []memstore.Op
}

// bubble runs a test on fake time.
func bubble(t *testing.T, f func(*bed), opt ...func(*waiter.Config)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, ctx: t.Context(), clk: memstore.NewClock()}
		b.srv = memstore.New(b.clk.Wall)
		b.Client = b.srv.Client()
		for _, op := range []memstore.Op{memstore.OpBegin, memstore.OpOpen, memstore.OpOpeningViews, memstore.OpNext} {
			b.Hook(memstore.Before, op, func(context.Context, string) error {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.ops = append(b.ops, op)
				return nil
			})
		}
		cfg := waiter.Config{
			Source: b.Source(), Clock: b.clk, Log: slog.New(slog.DiscardHandler), OpTimeout: opTimeout, Await: await,
			Recheck: recheck, Linger: linger, Poll: poll,
			Sink: func(n waiter.Notice) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.said = append(b.said, n)
			},
		}
		for _, o := range opt {
			o(&cfg)
		}
		b.w = waiter.New(cfg)
		defer b.w.Close()
		f(b)
		b.w.Close()
		synctest.Wait()
		require.Zero(t, b.Taps(), "streams are closed")
	})
}

// hold takes a number that is admitted and one that is not, and returns both and when the second was asked for.
func (b *bed) hold(name string) (held, waits queue.Place, since clock.Instant) {
	held = b.enqueue(name)
	since = b.clk.Now()
	return held, b.enqueue(name), since
}

var mark int64

var markMu sync.Mutex // guards mark

func (b *bed) enqueue(name string) queue.Place {
	markMu.Lock()
	mark++
	a := queue.Arrival{Mark: mark, Units: 1, Grace: time.Second}
	markMu.Unlock()
	p, err := b.srv.Client().Queue().Enqueue(b.ctx, name, queue.Mutex, a)
	require.NoError(b.t, err)
	return p
}

func (b *bed) settle(name string, p queue.Place) {
	_, err := b.srv.Client().Queue().Settle(b.ctx, name, []queue.Range{p.Range}, p.Arrival)
	require.NoError(b.t, err)
}

// notices are what was said of a lock, in order.
func (b *bed) notices(name string) []waiter.Notice {
	b.mu.Lock()
	defer b.mu.Unlock()
	var of []waiter.Notice
	for _, n := range b.said {
		if n.View.Name == name {
			of = append(of, n)
		}
	}
	return of
}

// told reports where the news came from that first admitted the place.
func (b *bed) told(name string, p queue.Place) (from waiter.Origin, ok bool) {
	for _, n := range b.notices(name) {
		if !n.Missing && n.View.Frontier >= p.Hi {
			return n.Origin, true
		}
	}
	return 0, false
}

// requireTold waits for the news that admits a place, at most limit.
func (b *bed) requireTold(name string, p queue.Place, from waiter.Origin, limit time.Duration) {
	b.t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		synctest.Wait()
		if origin, ok := b.told(name, p); ok {
			require.Equal(b.t, from.String(), origin.String())
			return
		}
		require.Less(b.t, time.Since(began), limit, "not told")
	}
}

// streaming waits until the stream is open and its first Next is on its way.
func (b *bed) streaming() {
	b.t.Helper()
	before := b.Calls(memstore.OpNext)
	for began := time.Now(); b.Calls(memstore.OpNext) == before || !b.w.Streaming(); time.Sleep(time.Millisecond) {
		require.Less(b.t, time.Since(began), time.Minute, "no stream")
	}
	synctest.Wait()
}

func (b *bed) order() []memstore.Op {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ops)
}
