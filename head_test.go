package fairlock

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
)

// TestAnEarlierGiveIsSlow: a run ends and opens what follows while numbers that it gave back before are still being settled. The
// next reply shows a frontier below what is proved by then, and that is no sign of a document made anew.
func TestAnEarlierGiveIsSlow(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		l1 := p.lock("x")
		a2 := p.begin("x")
		var n atomic.Int64
		gates := []*memstore.Gate{memstore.NewGate(), memstore.NewGate()}
		p.store.Hook(memstore.Before, memstore.OpSettle, func(ctx context.Context, name string) error {
			if i := n.Add(1) - 1; i < 2 {
				return gates[i].Pass(ctx, name)
			}
			return nil
		})
		a2.cancel()
		synctest.Wait()
		unlocked := make(chan error, 1)
		go func() { unlocked <- l1.Unlock(b.ctx) }()
		synctest.Wait()
		a3 := p.begin("x")
		gates[1].Open()
		synctest.Wait()
		l3 := a3.granted()
		a4 := p.begin("x")
		require.NoError(b.t, l3.Err())
		gates[0].Open()
		require.NoError(b.t, <-unlocked)
		b.unlock(l3)
		b.unlock(a4.grantedIn(5 * time.Second))
		require.Zero(b.t, p.Stats().Lost)
	})
}

// TestTicketOfAHeldNumberFails: the holder has Margin to stop before the next of the same run is admitted, also when the run's
// front has been passed on without a write.
func TestTicketOfAHeldNumberFails(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		l1 := p.lock("x")
		time.Sleep(3 * time.Second) // its ticket stands
		p.store.Hook(memstore.Before, memstore.OpPutTicket, memstore.Fail(1_000_000, memstore.ErrNoReply))
		a2 := p.begin("x")
		time.Sleep(5 * time.Second)
		a3 := p.begin("x")
		b.unlock(l1)
		l2 := a2.granted()
		<-l2.Context().Done()
		b.requireLost(l2.Err(), LostTicket)
		at := time.Now()
		<-a3.done
		require.GreaterOrEqual(b.t, time.Since(at), testMargin)
		b.unlock(a3.lock)
	})
}

// TestTrimForgetsArrivals: a process in which somebody always waits keeps as many arrivals and tickets as it has open.
func TestTrimForgetsArrivals(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		p.store.Hook(memstore.Before, memstore.OpEnqueue, func(context.Context, string) error {
			time.Sleep(23 * time.Millisecond)
			return nil
		})
		var stop atomic.Bool
		for range 20 {
			go func() {
				for !stop.Load() {
					l, err := p.Lock(b.ctx, "x")
					if err != nil {
						return
					}
					time.Sleep(5 * time.Millisecond)
					_ = l.Unlock(b.ctx)
				}
			}()
		}
		for range 6 {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			require.Zero(b.t, arrivalsLeftBehind(p.lineOf("x")))
			require.Less(b.t, len(b.srv.Tickets()), 100)
		}
		stop.Store(true)
		time.Sleep(time.Second)
	})
}

// arrivalsLeftBehind counts arrivals that lie wholly before the run that keeps them.
func arrivalsLeftBehind(l *line) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.runs {
		for _, a := range r.arrivals {
			if a.Hi < r.Lo {
				n++
			}
		}
	}
	return n
}

// TestTheTurnComesBeforeTheNumber: the head leaves after the arrival took effect and before its reply is there. The event comes
// to a line that does not wait yet, and is all that will ever tell it.
func TestTheTurnComesBeforeTheNumber(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := other.lock("x")
		a := p.begin("x") // has p open a stream, which lingers
		b.unlock(l)
		b.unlock(a.granted())

		time.Sleep(time.Second) // what is asked for now comes after the stream's beginning
		l = other.lock("x")
		gate := memstore.NewGate()
		p.store.Hook(memstore.After, memstore.OpEnqueue, gate.Pass)
		a = p.begin("x")
		<-gate.Reached()
		b.unlock(l)
		gate.Open()
		began := time.Now()
		b.unlock(a.granted())
		require.Less(t, time.Since(began), 10*time.Millisecond)
		require.Zero(t, p.Stats().GrantsByRecheck)
	})
}
