package fairlock

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock/internal/memstore"
)

var errUnauthorized = mongo.CommandError{Code: 13, Name: "Unauthorized"}

// TestRoleRevokedAndGivenBack: the holder ends by its lease, who waits is told then, Unlock does not wait, and all goes on when the role is
// back.
func TestRoleRevokedAndGivenBack(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		held, free := p.lock("x"), p.lock("y")
		elsewhere := other.lock("z")
		waits := p.begin("z")
		give := p.store.Hook(memstore.Before, memstore.OpAny, memstore.Fail(100_000, errUnauthorized))
		require.ErrorContains(b.t, p.begin("new").failed(), "Unauthorized")
		require.ErrorContains(b.t, free.Unlock(b.ctx), "Unauthorized")
		require.NoError(b.t, held.Err())
		require.False(b.t, waits.over())
		time.Sleep(testTTL)
		b.requireLost(held.Err(), LostLease)
		require.ErrorContains(b.t, waits.failed(), "Unauthorized")
		give()
		b.unlock(elsewhere)
		time.Sleep(testTTL)
		require.ErrorContains(b.t, free.Unlock(b.ctx), "Unauthorized", "the same each time, though it is given back by now")
		for _, name := range []string{"x", "y", "z", "new"} {
			b.unlock(p.begin(name).grantedIn(testTTL))
		}
	})
}

// TestTicketRefused: who waits is told, who holds goes on as long as it can without a ticket.
func TestTicketRefused(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		held := p.lock("x")
		synctest.Wait()
		p.store.Hook(memstore.Before, memstore.OpPutTicket, memstore.Fail(100_000, errUnauthorized))
		waits := p.begin("x")
		time.Sleep(time.Second)
		require.ErrorContains(b.t, waits.failed(), "Unauthorized")
		require.NoError(b.t, held.Err())
		b.unlock(held)
		b.requireIdle("x")
	})
}

// TestTooManyWaiters: see also the integration tests.
func TestTooManyWaiters(t *testing.T) {
	bubble(t, func(b *bed) {
		limited := func(c *Config) { c.MaxWaiters, c.MaxCalls = 2, 3 }
		p, q := b.proc(limited), b.proc(limited)
		held := p.lock("x")
		first, second := p.begin("x"), q.begin("x")
		for _, m := range []*proc{p, q} {
			before := b.doc("x").Issued
			err := m.begin("x").failed()
			require.ErrorIs(b.t, err, ErrTooManyWaiters)
			require.EqualError(b.t, err, `fairlock: too many waiters: lock "x" has 2, the limit is 2`)
			require.Equal(b.t, before, b.doc("x").Issued)
		}
		require.ErrorIs(b.t, p.beginTry("x").failed(), ErrBusy)
		others := []*Lock{q.lock("a"), q.lock("b")}
		waiting := []*attempt{p.begin("a"), p.begin("b")}
		require.EqualError(b.t, p.begin("c").failed(),
			`fairlock: too many waiters: lock "c": this manager has 3 calls that wait, the limit is 3`)
		for i, l := range others {
			b.unlock(l)
			b.unlock(waiting[i].granted())
		}
		b.unlock(held)
		b.unlock(first.granted())
		b.unlock(second.granted())
		b.requireIdle("x")
	})
}

// TestTheSameFailureIsLoggedOnceAMinute and what is no failure always.
func TestTheSameFailureIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(newQuiet(slog.NewTextHandler(&out, nil)))
		count := func(s string) int { return strings.Count(out.String(), s) }
		for range 100 {
			log.Warn("refused", "lock", "x", "error", errUnauthorized)
			log.With("a", 1).Warn("refused", "lock", "y", "error", errUnauthorized)
			log.Warn("told always")
			log.Info("told always too", "error", "x")
		}
		require.Equal(t, 1, count("lock=x"))
		require.Equal(t, 1, count("lock=y"))
		require.Equal(t, 200, count("told always"))
		time.Sleep(time.Minute)
		log.Warn("refused", "lock", "x", "error", errUnauthorized)
		require.Equal(t, 1, count("repeated=99"))
		for i := range 3 * mostQuiet {
			log.Warn("refused", "lock", fmt.Sprint(i), "error", "x")
		}
	})
}
