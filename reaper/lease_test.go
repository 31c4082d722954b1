package reaper_test

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/reaper"
)

// change is a call of Changed.
type change struct {
	state reaper.LeaseState
	at    clock.Instant
	until clock.Instant
	term  int64
}

func (b *bed) lease(opt ...func(*reaper.LeaseConfig)) (*reaper.Lease, chan change) {
	changes := make(chan change, 100)
	cfg := reaper.LeaseConfig{
		TTL: ttl, Margin: margin, OpTimeout: 5 * time.Second, Clock: b.clk, Store: b.Sessions(),
		Log: slog.New(slog.DiscardHandler),
		Changed: func(l *reaper.Lease, s reaper.LeaseState) {
			changes <- change{s, b.clk.Now(), l.Until(), l.Term()}
		},
	}
	for _, o := range opt {
		o(&cfg)
	}
	l, err := reaper.Begin(b.ctx, cfg, reaper.Session{ID: "s"})
	require.NoError(b.t, err)
	b.t.Cleanup(l.Stop)
	return l, changes
}

func TestLeaseIsRenewedEveryThirdOfItsTTL(t *testing.T) {
	for _, c := range []struct {
		name             string
		margin, interval time.Duration
	}{{"small margin", time.Second, 3 * time.Second}, {"large margin", ttl / 2, ttl / 4}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bed) {
				began := b.clk.Now()
				var at []time.Duration
				b.Hook(memstore.Before, memstore.OpRenew, func(context.Context, string) error {
					at = append(at, b.clk.Now().Sub(began))
					return nil
				})
				l, changes := b.lease(func(cfg *reaper.LeaseConfig) { cfg.Margin = c.margin })
				time.Sleep(4*c.interval + c.interval/2)
				l.Stop()
				require.Equal(b.t, []time.Duration{c.interval, 2 * c.interval, 3 * c.interval, 4 * c.interval}, at)
				require.Equal(b.t, began.Add(4*c.interval+ttl-c.margin), l.Until())
				require.Empty(b.t, changes)
				require.Equal(b.t, reaper.Live, l.State())
			})
		})
	}
}

// TestTrustCountsFromSending: the server can have started the lease at any moment since.
func TestTrustCountsFromSending(t *testing.T) {
	bubble(t, func(b *bed) {
		slow := func(context.Context, string) error { time.Sleep(2 * time.Second); return nil }
		defer b.Hook(memstore.Before, memstore.OpBeginSession, slow)()
		defer b.Hook(memstore.After, memstore.OpRenew, slow)()
		sent := b.clk.Now()
		l, _ := b.lease()
		require.Equal(b.t, 2*time.Second, b.clk.Now().Sub(sent))
		require.Equal(b.t, sent.Add(ttl-margin), l.Until(), "of the begin")
		time.Sleep(3*time.Second + time.Millisecond) // the renewal was sent 3 s after the reply to the begin
		renewed := b.clk.Now().Add(-time.Millisecond)
		require.Equal(b.t, sent.Add(ttl-margin), l.Until(), "a renewal on its way does not count")
		time.Sleep(2 * time.Second)
		require.Equal(b.t, renewed.Add(ttl-margin), l.Until(), "of the renewal")
		require.True(b.t, l.Trusted(0))
	})
}

func TestLapseAndLateRenewal(t *testing.T) {
	bubble(t, func(b *bed) {
		restore := b.Hook(memstore.Before, memstore.OpRenew, memstore.Hang)
		l, changes := b.lease()
		until, term := l.Until(), l.Term()
		time.Sleep(ttl - margin - time.Millisecond)
		require.True(b.t, l.Trusted(term))
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.False(b.t, l.Trusted(term))
		require.Equal(b.t, change{reaper.Lapsed, until, until, term + 1}, <-changes, "noted when it happens, with a renewal under way")
		require.False(b.t, l.Trusted(l.Term()), "not in a new term either")

		restore()
		got := <-changes
		require.Equal(b.t, reaper.Live, got.state)
		require.Equal(b.t, reaper.Live, l.State())
		require.False(b.t, l.Trusted(term), "what was held is lost all the same")
		require.True(b.t, l.Trusted(term+1))
		time.Sleep(3 * ttl)
		require.True(b.t, l.Trusted(term+1), "and it goes on")
		require.Empty(b.t, changes)
	})
}

// TestRenewalThatComesTooLateForItself: its trust is over when it is acknowledged, so it mends nothing.
func TestRenewalThatComesTooLateForItself(t *testing.T) {
	bubble(t, func(b *bed) {
		l, changes := b.lease(func(c *reaper.LeaseConfig) { c.OpTimeout = time.Hour })
		gate := memstore.NewGate()
		remove := b.Hook(memstore.After, memstore.OpRenew, gate.Pass)
		<-gate.Reached()
		b.clk.Sleep(2 * ttl)
		remove()
		gate.Open()
		require.Equal(b.t, reaper.Lapsed, (<-changes).state)
		require.Equal(b.t, reaper.Live, (<-changes).state, "by the next renewal")
		require.EqualValues(b.t, 1, l.Term())
	})
}

func TestFailedRenewalsAreRepeatedSoon(t *testing.T) {
	bubble(t, func(b *bed) {
		began := b.clk.Now()
		b.Hook(memstore.Before, memstore.OpRenew, memstore.Fail(3, memstore.ErrNoReply))
		l, changes := b.lease()
		time.Sleep(ttl - margin)
		require.GreaterOrEqual(b.t, b.Calls(memstore.OpRenew), 4, "three that failed, and one that mended it")
		require.LessOrEqual(b.t, b.Calls(memstore.OpRenew), 6)
		require.Greater(b.t, l.Until(), began.Add(ttl-margin))
		require.Empty(b.t, changes)
	})
}

// TestRenewalIntoSilence: a renewal went to a primary that never answers. The next one does not wait for its time-out, and what becomes of
// the first does not matter any more.
func TestRenewalIntoSilence(t *testing.T) {
	bubble(t, func(b *bed) {
		const interval = ttl / 3
		errs := make(chan error, 100)
		began := b.clk.Now()
		restore := b.Hook(memstore.Before, memstore.OpRenew, memstore.Hang)
		l, changes := b.lease(func(c *reaper.LeaseConfig) {
			c.OpTimeout = ttl
			c.Renewed = func(_ time.Duration, err error) { errs <- err }
		})
		time.Sleep(interval + time.Millisecond)
		require.Equal(b.t, 1, b.Calls(memstore.OpRenew))
		restore()
		time.Sleep(interval / 2)
		require.Equal(b.t, began.Add(interval+interval/2+ttl-margin), l.Until(), "by the second")
		require.NoError(b.t, <-errs)
		require.Empty(b.t, errs, "the first is on its way")

		sent := b.clk.Now().Add(-time.Millisecond)
		time.Sleep(2*interval + interval/2) // the first has failed meanwhile
		require.Len(b.t, errs, 3)
		require.NoError(b.t, <-errs)
		require.NoError(b.t, <-errs)
		require.ErrorIs(b.t, <-errs, context.DeadlineExceeded, "of the first")
		require.Equal(b.t, sent.Add(2*interval+ttl-margin), l.Until())
		time.Sleep(interval/2 - 2*time.Millisecond)
		require.Equal(b.t, 4, b.Calls(memstore.OpRenew), "the pace is that of what was acknowledged")
		require.Empty(b.t, changes)
	})
}

// TestRenewalsOnTheirWay: a server that answers nothing is not asked without end.
func TestRenewalsOnTheirWay(t *testing.T) {
	bubble(t, func(b *bed) {
		var flying atomic.Int64
		most := make(chan int64, 1000)
		b.Hook(memstore.Before, memstore.OpRenew, func(ctx context.Context, _ string) error {
			most <- flying.Add(1)
			defer flying.Add(-1)
			<-ctx.Done()
			return ctx.Err()
		})
		l, changes := b.lease(func(c *reaper.LeaseConfig) { c.OpTimeout = time.Minute })
		require.Equal(b.t, reaper.Lapsed, (<-changes).state)
		time.Sleep(10 * ttl)
		l.Stop()
		require.Zero(b.t, flying.Load(), "Stop waits for all")
		close(most)
		var reached int64
		for n := range most {
			reached = max(reached, n)
		}
		require.EqualValues(b.t, 4, reached)
	})
}

// TestEndIsHeardOfLate: the reply that says so is to a renewal that was sent before another that was acknowledged.
func TestEndIsHeardOfLate(t *testing.T) {
	bubble(t, func(b *bed) {
		gate := memstore.NewGate()
		remove := b.Hook(memstore.Before, memstore.OpRenew, gate.Pass)
		l, changes := b.lease(func(c *reaper.LeaseConfig) { c.OpTimeout = time.Hour })
		<-gate.Reached()
		remove()
		time.Sleep(ttl / 4)
		require.Equal(b.t, 2, b.Calls(memstore.OpRenew))
		require.True(b.t, l.Trusted(0))
		b.srv.EndSession("s")
		gate.Open()
		require.Equal(b.t, change{reaper.Ended, b.clk.Now(), math.MinInt64, 1}, <-changes, "at once")
		<-l.Done()
	})
}

// TestLate: an outage shows while it lasts, and is told of when it is over, before anybody can see that it is.
func TestLate(t *testing.T) {
	bubble(t, func(b *bed) {
		const third = (ttl - margin) / 3
		resumed := make(chan bool, 10)
		var l *reaper.Lease
		restore := b.Hook(memstore.Before, memstore.OpRenew, memstore.Hang)
		l, changes := b.lease(func(c *reaper.LeaseConfig) { c.Resumed = func() { resumed <- l.Late() } })
		time.Sleep(2 * third)
		require.False(b.t, l.Late())
		time.Sleep(time.Millisecond)
		require.True(b.t, l.Late())
		restore()
		time.Sleep(third / 2) // a renewal comes through
		require.Len(b.t, resumed, 1)
		require.True(b.t, <-resumed)
		require.False(b.t, l.Late())
		require.Empty(b.t, changes, "it has not lapsed")

		b.Hook(memstore.Before, memstore.OpRenew, memstore.Fail(2, memstore.ErrNoReply))
		time.Sleep(3 * ttl)
		require.Empty(b.t, resumed, "a failure or two is no outage")
	})
}

func TestSessionEnded(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*bed)
	}{
		{"ended", func(b *bed) { b.srv.EndSession("s") }},
		{"dropped", func(b *bed) { b.srv.DropSession("s") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bed) {
				l, changes := b.lease()
				c.end(b)
				<-l.Done()
				require.Equal(b.t, change{reaper.Ended, b.clk.Now(), math.MinInt64, 1}, <-changes)
				require.Equal(b.t, reaper.Ended, l.State())
				require.False(b.t, l.Trusted(l.Term()))
				require.EqualValues(b.t, 1, b.Calls(memstore.OpRenew))
				l.Stop()
			})
		})
	}
}

func TestEndAfterALapse(t *testing.T) {
	bubble(t, func(b *bed) {
		restore := b.Hook(memstore.Before, memstore.OpRenew, memstore.Hang)
		l, changes := b.lease()
		require.Equal(b.t, reaper.Lapsed, (<-changes).state)
		b.srv.EndSession("s")
		restore()
		require.Equal(b.t, reaper.Ended, (<-changes).state)
		require.False(b.t, l.Trusted(l.Term()))
	})
}

// TestLapseIsCountedBeforeTrustMoves: the process slept over its lease, and a reply that had been on its way is handled before
// the timer of the lapse. Whoever sees the new end of trust must see the lapse too.
func TestLapseIsCountedBeforeTrustMoves(t *testing.T) {
	bubble(t, func(b *bed) {
		gate := memstore.NewGate()
		b.Hook(memstore.Before, memstore.OpRenew, gate.Pass)
		l, changes := b.lease(func(c *reaper.LeaseConfig) { c.OpTimeout = time.Hour })
		until := l.Until()
		<-gate.Reached()
		b.clk.Sleep(ttl) // the server has not ended the session, which it need not
		require.False(b.t, l.Trusted(0))
		gate.Open()
		got := <-changes
		require.Equal(b.t, reaper.Lapsed, got.state)
		require.Equal(b.t, until, got.until, "trust has not moved when the lapse is counted")
		require.EqualValues(b.t, 1, got.term)
		require.False(b.t, l.Trusted(0))
	})
}

// TestTimeAsleepCounts: no timer fires, and trust is over at the first question.
func TestTimeAsleepCounts(t *testing.T) {
	bubble(t, func(b *bed) {
		l, changes := b.lease()
		b.clk.Sleep(ttl - margin - 1)
		require.True(b.t, l.Trusted(0))
		b.clk.Sleep(1)
		require.False(b.t, l.Trusted(0))
		require.Empty(b.t, changes, "nothing has run")
		require.Equal(b.t, reaper.Live, l.State(), "for people")
	})
}

func TestStopWaits(t *testing.T) {
	bubble(t, func(b *bed) {
		b.Hook(memstore.Before, memstore.OpRenew, func(ctx context.Context, _ string) error {
			<-ctx.Done()
			time.Sleep(700 * time.Millisecond) // a driver takes its time
			return ctx.Err()
		})
		l, _ := b.lease()
		time.Sleep(ttl/3 + time.Millisecond)
		began := time.Now()
		l.Stop()
		require.Equal(b.t, 700*time.Millisecond, time.Since(began))
		l.Stop()
		_, there := b.srv.Session("s")
		require.True(b.t, there, "the session stays")
	})
}

func TestBeginFails(t *testing.T) {
	bubble(t, func(b *bed) {
		b.Hook(memstore.After, memstore.OpBeginSession, memstore.Fail(1, memstore.ErrNoReply))
		_, err := reaper.Begin(b.ctx, reaper.LeaseConfig{TTL: ttl, Margin: margin, Clock: b.clk, Store: b.Sessions()}, reaper.Session{ID: "s"})
		require.ErrorIs(b.t, err, memstore.ErrNoReply)
		time.Sleep(2 * ttl)
		require.Zero(b.t, b.Calls(memstore.OpRenew), "nothing renews what may have been written")
	})
}
