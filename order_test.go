package fairlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
)

func TestOneProcessTakesAndGivesBack(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		var last int64
		for range 5 {
			l := p.lock("x")
			require.Equal(b.t, "x", l.Name())
			require.Greater(b.t, l.Token(), last)
			last = l.Token()
			b.unlock(l)
			require.ErrorIs(b.t, l.Err(), ErrUnlocked)
			require.NoError(b.t, l.Unlock(b.ctx), "the same each time")
			b.requireIdle("x")
		}
		s := p.Stats()
		require.EqualValues(b.t, []int64{5, 5, 5, 0}, []int64{s.Grants, s.Enqueues, s.Settles, s.TicketsWritten})
		require.Zero(b.t, s.StreamsOpened, "nobody waited")
	})
}

// TestOrderAcrossProcesses: grants are in the order of the calls, wherever they are made (I5).
func TestOrderAcrossProcesses(t *testing.T) {
	bubble(t, func(b *bed) {
		procs := []*proc{b.proc(), b.proc(), b.proc(func(c *Config) { c.Poll = true })}
		held := procs[0].lock("x")
		var calls []*attempt
		for i := range 24 {
			calls = append(calls, procs[(i+i/3)%3].begin("x"))
		}
		time.Sleep(time.Second)
		require.NotEmpty(b.t, b.srv.Tickets(), "waits of a second are visible")
		for i, c := range calls {
			for _, later := range calls[i:] {
				require.False(b.t, later.over())
			}
			last := held.Token()
			b.unlock(held)
			held = c.grantedIn(200 * time.Millisecond) // of polling
			require.Greater(b.t, held.Token(), last)
		}
		b.unlock(held)
		b.requireIdle("x")
		for _, p := range procs {
			require.Zero(b.t, p.Stats().GrantsByRecheck)
		}
		require.Positive(b.t, procs[2].Stats().GrantsByPoll)
		require.Zero(b.t, procs[2].Stats().StreamsOpened)
		require.Positive(b.t, procs[1].Stats().GrantsByEvent)
	})
}

// TestLocalHandOver: a process passes the lock on between its own consecutive waiters without a write, in order, and
// settles all of it once.
func TestLocalHandOver(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		gate := memstore.NewGate()
		p.store.Hook(memstore.Before, memstore.OpEnqueue, gate.Pass)
		var calls []*attempt
		for range 8 {
			calls = append(calls, p.begin("x"))
		}
		gate.Open()
		first := calls[0].granted().Token()
		for i, c := range calls {
			l := c.granted()
			require.Equal(b.t, first+int64(i), l.Token())
			if i+1 < len(calls) {
				require.False(b.t, calls[i+1].over())
			}
			b.unlock(l)
		}
		b.requireIdle("x")
		s := p.Stats()
		require.EqualValues(b.t, 8, s.Grants)
		require.EqualValues(b.t, 2, s.Enqueues, "those that came meanwhile shared the second")
		require.EqualValues(b.t, 1, s.Settles)
	})
}

// TestSteadyLoadIsSettledNowAndThen: a process in which somebody always waits does not pile up numbers and tickets.
func TestSteadyLoadIsSettledNowAndThen(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		held := p.lock("x")
		waits := []*attempt{p.begin("x"), p.begin("x"), p.begin("x")}
		for range 200 {
			time.Sleep(50 * time.Millisecond)
			waits = append(waits, p.begin("x"))
			b.unlock(held)
			held, waits = waits[0].granted(), waits[1:]
		}
		time.Sleep(200 * time.Millisecond) // for tickets that were being deleted
		v := b.doc("x")
		require.Less(b.t, v.Issued-v.Settled, int64(40))
		require.Less(b.t, len(b.srv.Tickets()), 40)
		require.Less(b.t, p.Stats().Settles, int64(20), "and settles few times")
		b.unlock(held)
		for _, w := range waits {
			b.unlock(w.granted())
		}
		b.requireIdle("x")
	})
}

// TestHandOverDoesNotOvertake: another process between two runs of one process gets its turn.
func TestHandOverDoesNotOvertake(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		first := p.lock("x")
		others := q.begin("x")
		third, fourth := p.begin("x"), p.begin("x")
		b.unlock(first)
		require.False(b.t, third.over())
		b.unlock(others.granted())
		require.False(b.t, fourth.over())
		b.unlock(third.granted())
		b.unlock(fourth.granted())
		require.EqualValues(b.t, 2, p.Stats().Settles)
		require.EqualValues(b.t, 1, q.Stats().Settles)
	})
}

func TestLocksAreApart(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		x, y := p.lock("x"), p.lock("y")
		require.False(b.t, p.begin("x", MaxWait(time.Second)).over())
		b.unlock(y)
		time.Sleep(time.Second)
		b.unlock(x)
	})
}

func TestTryLock(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		l := p.beginTry("x").granted()
		issued := b.doc("x").Issued
		require.ErrorIs(b.t, q.beginTry("x").failed(), ErrBusy)
		require.ErrorIs(b.t, p.beginTry("x").failed(), ErrBusy)
		require.Equal(b.t, 1, p.store.Calls(memstore.OpTry), "what is known here needs no call")
		require.Equal(b.t, issued, b.doc("x").Issued, "a refusal leaves no trace")
		waits := q.begin("x")
		require.ErrorIs(b.t, p.beginTry("x").failed(), ErrBusy)
		b.unlock(l)
		require.ErrorIs(b.t, p.beginTry("x").failed(), ErrBusy, "held by another process")
		b.unlock(waits.granted())
		b.unlock(p.beginTry("x").granted())
		b.requireIdle("x")
	})
}

// TestStaleRefusalIsHarmless: an old state can only say "busy".
func TestStaleRefusalIsHarmless(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		b.unlock(q.lock("y")) // it has a session
		l := p.lock("x")
		q.store.Freeze()
		b.unlock(l)
		require.ErrorIs(b.t, q.beginTry("x").failed(), ErrBusy)
		q.store.Thaw()
		b.unlock(q.beginTry("x").granted())
	})
}

func TestDo(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		type key struct{}
		errWork := context.DeadlineExceeded
		err := p.Do(context.WithValue(b.ctx, key{}, "v"), "x", func(ctx context.Context) error {
			require.Equal(b.t, "v", ctx.Value(key{}))
			require.NoError(b.t, ctx.Err())
			require.ErrorIs(b.t, p.beginTry("x").failed(), ErrBusy)
			return errWork
		})
		require.ErrorIs(b.t, err, errWork)
		require.NotErrorIs(b.t, err, ErrLost)
		b.requireIdle("x")

		require.Panics(b.t, func() { _ = p.Do(b.ctx, "x", func(context.Context) error { panic("work") }) })
		b.requireIdle("x")

		err = p.Do(b.ctx, "x", func(ctx context.Context) error {
			b.srv.EndSession(p.Session())
			<-ctx.Done()
			b.requireLost(context.Cause(ctx), LostSession)
			return nil
		})
		b.requireLost(err, LostSession)
	})
}

func TestLockContext(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		parent, cancel := context.WithCancel(b.ctx)
		l, err := p.Lock(parent, "x")
		require.NoError(b.t, err)
		ctx := l.Context()
		cancel()
		synctest.Wait()
		require.NoError(b.t, ctx.Err(), "the wait's context does not end the hold")
		b.unlock(l)
		require.ErrorIs(b.t, context.Cause(ctx), ErrUnlocked)

		l = p.lock("x")
		b.unlock(l)
		require.ErrorIs(b.t, context.Cause(l.Context()), ErrUnlocked, "asked for late")
	})
}
