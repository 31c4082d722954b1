package fairlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
)

// TestBuriedNumbersAreNoCapacity: a process sleeps while a reaper buries one of its numbers, behind somebody who holds all permits, so
// that the frontier passes over it. The frontier must not be read as room for the next of the same run (I4; the
// counterexample of model/, mutant BUG_BURIED).
func TestBuriedNumbersAreNoCapacity(t *testing.T) {
	bubble(t, func(b *bed) {
		shape := queue.Shape{Kind: "pool", Permits: 2}
		holder, p := b.proc(), b.proc()
		b.unlock(p.lock("warm up"))
		all := holder.beginUnits("x", shape, 2).granted()

		time.Sleep(testTTL/3 - 100*time.Millisecond)
		gate := memstore.NewGate()
		p.store.Hook(memstore.Before, memstore.OpPutTicket, gate.Pass)
		first := p.beginUnits("x", shape, 1)
		<-gate.Reached()
		time.Sleep(150 * time.Millisecond) // renewed right now
		n := b.doc("x").Issued
		p.clk.Sleep(testTTL - testMargin - 200*time.Millisecond)

		q := b.srv.Client().Queue()
		ripe, err := q.Bury(b.ctx, "x", []queue.Range{{Lo: n, Hi: n}})
		require.NoError(b.t, err)
		require.Equal(b.t, []queue.Range{{Lo: n, Hi: n}}, ripe)
		_, err = q.Settle(b.ctx, "x", ripe, 0)
		require.NoError(b.t, err)
		require.Equal(b.t, n, b.doc("x").Frontier, "it passed over the number")

		second := p.beginUnits("x", shape, 1) // joins the run of the first
		first.cancel()
		require.ErrorIs(b.t, first.failed(), context.Canceled)
		synctest.Wait()
		require.False(b.t, second.over(), "both permits are held")
		gate.Open()
		time.Sleep(time.Second)
		require.False(b.t, second.over(), "both permits are held")
		b.unlock(all)
		b.unlock(second.grantedIn(testTTL)) // when the lease is renewed
		b.requireIdle("x")
	})
}
