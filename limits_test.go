package fairlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
)

// TestThoseWhoGaveUpAreNotCounted: callers that gave up behind one who goes on waiting take up no room, and nothing of them is kept.
func TestThoseWhoGaveUpAreNotCounted(t *testing.T) {
	bubble(t, func(b *bed) {
		limited := func(c *Config) { c.MaxWaiters = 3 }
		p, q := b.proc(limited), b.proc(limited)
		held := q.lock("x")
		first := p.begin("x")
		for range 20 {
			c1, c2 := p.begin("x"), p.begin("x")
			time.Sleep(2 * time.Second)
			c1.cancel()
			c2.cancel()
			time.Sleep(2 * time.Second)
		}
		require.Len(b.t, p.lineOf("x").runs[0].claims, 1)
		require.Len(b.t, b.doc("x").Done, 1)
		next := q.begin("x")
		require.False(b.t, next.over(), "one waits, the limit is three")
		b.unlock(held)
		b.unlock(first.granted())
		b.unlock(next.granted())
		b.requireIdle("x")
	})
}

// TestARequeueIsNotRefused: who queues again because his numbers became void does so whatever the limit is: what is in his way may be
// his own.
func TestARequeueIsNotRefused(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc(func(c *Config) { c.MaxWaiters = 2 })
		held := p.lock("x")
		one, two := p.begin("x"), p.begin("x")
		time.Sleep(3 * time.Second)
		b.srv.EndSession(p.Session())
		<-held.Context().Done()
		b.unlock(one.grantedIn(testTTL))
		b.unlock(two.grantedIn(testTTL))
		require.EqualValues(b.t, 2, p.Stats().Requeued)
	})
}

// TestWritersCountOneEach, although each takes 1024 numbers.
func TestWritersCountOneEach(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc(func(c *Config) { c.MaxWaiters = 1 })
		rw, err := p.RWLock("x")
		require.NoError(b.t, err)
		write := func() *attempt { return b.attempt(func(ctx context.Context) (*Lock, error) { return rw.Lock(ctx) }) }
		for _, first := range []func() (*Lock, error){
			func() (*Lock, error) { return rw.Lock(b.ctx) },
			func() (*Lock, error) { return rw.RLock(b.ctx) },
		} {
			held, err := first()
			require.NoError(b.t, err)
			waits := write()
			require.False(b.t, waits.over())
			require.EqualError(b.t, write().failed(), `fairlock: too many waiters: lock "x" has 1, the limit is 1`)
			b.unlock(held)
			b.unlock(waits.granted())
		}
		b.requireIdle("x")
	})
}

// TestTheRefusalOfAnotherCallIsNotMine: a caller whose own context ends is not told of a limit that another met.
func TestTheRefusalOfAnotherCallIsNotMine(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(func(c *Config) { c.MaxWaiters = 1 }), b.proc()
		held := q.lock("x")
		waits := p.begin("x")
		require.ErrorIs(b.t, p.begin("x").failed(), ErrTooManyWaiters)
		waits.cancel()
		err := waits.failed()
		require.ErrorIs(b.t, err, context.Canceled)
		require.NotErrorIs(b.t, err, ErrTooManyWaiters)
		b.unlock(held)
	})
}

// TestNewcomersAfterALapseAreTold: the lease has lapsed for want of a privilege; who comes then hears of that, too.
func TestNewcomersAfterALapseAreTold(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		held := p.lock("x")
		give := p.store.Hook(memstore.Before, memstore.OpAny, memstore.Fail(1_000_000, errUnauthorized))
		time.Sleep(testTTL)
		b.requireLost(held.Err(), LostLease)
		require.ErrorContains(b.t, p.begin("y").failed(), "Unauthorized")
		give()
		time.Sleep(testTTL)
		b.unlock(p.lock("y"))
	})
}

// TestGarbageThatCannotBeDeletedIsInNobodysWay: a process that may not delete tickets buries orphan numbers all the same.
func TestGarbageThatCannotBeDeletedIsInNobodysWay(t *testing.T) {
	bubble(t, func(b *bed) {
		p, dead := b.proc(), b.proc()
		give := p.store.Hook(memstore.Before, memstore.OpDropTickets, memstore.Fail(1_000_000, errUnauthorized))
		old := p.lock("x")
		time.Sleep(3 * time.Second) // its ticket is written, and will be garbage
		b.unlock(old)
		dead.store.Hook(memstore.Before, memstore.OpPutTicket, memstore.Hang)
		_ = dead.lock("x")
		back := dead.store.Hook(memstore.Before, memstore.OpAny, memstore.Fail(1_000_000, memstore.ErrNoReply))
		waits := p.begin("x")
		b.unlock(waits.grantedIn(testTTL + 5*time.Second))
		give()
		back()
		synctest.Wait()
		time.Sleep(3 * testTTL) // the sweep deletes what is left
	})
}
