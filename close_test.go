package fairlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
)

// TestClose closes a process while calls are in every state. Whoever waits gets ErrClosed, what is held is lost, others
// go on at once, nothing is left, and Close waits for no lease.
func TestClose(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(*bed, *proc) *attempt
	}{
		{"nothing", func(*bed, *proc) *attempt { return nil }},
		{"idle session", func(b *bed, p *proc) *attempt { b.unlock(p.lock("x")); return nil }},
		{"queued", func(b *bed, p *proc) *attempt {
			b.procs[0].lock("x")
			return p.begin("x")
		}},
		{"queued with a ticket", func(b *bed, p *proc) *attempt {
			b.procs[0].lock("x")
			a := p.begin("x")
			time.Sleep(time.Second)
			return a
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bed) {
				b.proc()
				p := b.proc()
				a := c.begin(b, p)
				require.NoError(b.t, p.closeIn(time.Minute))
				if a != nil {
					require.ErrorIs(b.t, a.failed(), ErrClosed)
				}
				require.ErrorIs(b.t, p.begin("x").failed(), ErrClosed)
				require.ErrorIs(b.t, p.beginTry("x").failed(), ErrClosed)
				require.NoError(b.t, p.closeIn(time.Minute), "again")
			})
		})
	}
}

// TestCloseInFlight: the number comes while Close is under way. It is given back, not granted.
func TestCloseInFlight(t *testing.T) {
	for _, op := range []memstore.Op{memstore.OpBeginSession, memstore.OpEnqueue, memstore.OpTry} {
		for _, at := range []memstore.Point{memstore.Before, memstore.After} {
			t.Run([]string{"before ", "after "}[at]+string(op), func(t *testing.T) {
				bubble(t, func(b *bed) {
					p := b.proc()
					gate := memstore.NewGate()
					p.store.Hook(at, op, gate.Pass)
					var calls []*attempt
					if op == memstore.OpTry {
						calls = append(calls, p.beginTry("x"))
					} else {
						calls = append(calls, p.begin("x"), p.begin("x"))
					}
					<-gate.Reached()
					closed := make(chan error, 1)
					go func() { closed <- p.closeIn(time.Minute) }()
					synctest.Wait()
					gate.Open()
					require.NoError(b.t, <-closed)
					for _, c := range calls {
						require.ErrorIs(b.t, c.failed(), ErrClosed)
					}
					require.Empty(b.t, b.srv.Unrest())
				})
			})
		}
	}
}

func TestCloseWhileHolding(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := p.lock("x", MaxHold(time.Minute))
		ctx := l.Context()
		a := other.begin("x")
		time.Sleep(time.Second)
		require.NoError(b.t, p.closeIn(time.Minute))
		b.requireLost(l.Err(), LostClosed)
		require.ErrorIs(b.t, l.Err(), ErrClosed)
		b.requireLost(context.Cause(ctx), LostClosed)
		b.requireLost(l.Unlock(b.ctx), LostClosed)
		b.unlock(a.granted())
		time.Sleep(time.Minute)
		require.EqualValues(b.t, 1, p.Stats().Lost)
	})
}

func TestCloseWaitsForSettles(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		l := p.lock("x")
		gate := memstore.NewGate()
		p.store.Hook(memstore.Before, memstore.OpSettle, gate.Pass)
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		require.ErrorIs(b.t, l.Unlock(ctx), context.Canceled)
		closed := make(chan error, 1)
		go func() { closed <- p.closeIn(time.Minute) }()
		synctest.Wait()
		require.Empty(b.t, closed)
		gate.Open()
		require.NoError(b.t, <-closed)
		require.NoError(b.t, l.Unlock(b.ctx))
		require.Empty(b.t, b.srv.Unrest())
	})
}

// TestCloseThatCannotFinish returns when its context ends, and leaves the rest to the lease.
func TestCloseThatCannotFinish(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		p.lock("x")
		a := other.begin("x")
		time.Sleep(time.Second)
		p.store.Hook(memstore.Before, memstore.OpAny, memstore.Hang)
		began := time.Now()
		require.ErrorIs(b.t, p.closeIn(2*time.Second), context.DeadlineExceeded)
		require.Equal(b.t, 2*time.Second, time.Since(began))
		b.unlock(a.grantedIn(testTTL + testTTL/5))
	})
}

// TestCloseByMany: all wait.
func TestCloseByMany(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		p.lock("x")
		errs := make(chan error, 4)
		for range 4 {
			go func() { errs <- p.closeIn(time.Minute) }()
		}
		for range 4 {
			require.NoError(b.t, <-errs)
		}
	})
}

// TestCloseDuringALapse: the lease cannot be renewed, and the rest of the database answers.
func TestCloseDuringALapse(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		p.lock("x")
		p.store.Hook(memstore.Before, memstore.OpRenew, memstore.Hang)
		time.Sleep(testTTL)
		require.NoError(b.t, p.closeIn(time.Minute))
	})
}
