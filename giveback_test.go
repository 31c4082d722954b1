package fairlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
)

// TestTicketStandsUntilAllItsNumbersAreSettled: of two units of one arrival the first is given back, and that settle is not answered;
// then the second. The ticket may not go before the first is settled (memstore panics on it), for without it that number
// would look like an orphan.
func TestTicketStandsUntilAllItsNumbersAreSettled(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		gate := memstore.NewGate()
		remove := p.store.Hook(memstore.Before, memstore.OpEnqueue, gate.Pass)
		other := p.beginUnits("x", pool, 1)
		first, second := p.beginUnits("x", pool, 1), p.beginUnits("x", pool, 1) // share the next arrival
		remove()
		gate.Open()
		l0, l1, l2 := other.granted(), first.granted(), second.granted()
		require.Same(b.t, l1.from, l2.from)
		time.Sleep(time.Second) // the tickets stand
		require.Len(b.t, b.srv.Tickets(), 2)
		p.store.Hook(memstore.Before, memstore.OpSettle, memstore.Fail(1, memstore.ErrNoReply))
		go func() { _ = l1.Unlock(b.ctx) }()
		synctest.Wait()
		b.unlock(l2)
		time.Sleep(time.Second)
		b.unlock(l0)
		b.requireIdle("x")
	})
}

// TestHolderOfAVoidNumberHasMarginToStop: one number of a run is settled by somebody else. Who holds it is told, and has Margin to stop before
// the next of this process is admitted in its place; who holds another number of the run keeps it.
func TestHolderOfAVoidNumberHasMarginToStop(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		one, two := p.beginUnits("x", pool, 1).granted(), p.beginUnits("x", pool, 2).granted()
		next := p.beginUnits("x", pool, 3)
		_, err := b.srv.Client().Queue().Settle(b.ctx, "x", []queue.Range{one.claim.num}, 1)
		require.NoError(b.t, err)
		<-one.Context().Done()
		told := time.Now()
		b.requireLost(one.Err(), LostSettled)
		b.unlock(two)
		next.granted()
		require.GreaterOrEqual(b.t, time.Since(told), testMargin)
		b.unlock(next.lock)
		b.requireLost(one.Unlock(b.ctx), LostSettled)
		b.requireIdle("x")
	})
}

// TestVoidArrivalBehindATrimmedFront: the front of a run was given back and forgotten, and then the ticket of the arrival that it was of fails.
// What is behind it counts its capacity from what is left; the numbers that were given back before must not be taken off again, or it is
// never granted (found by the simulator, seed 208245).
func TestVoidArrivalBehindATrimmedFront(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		held := q.lock("x")
		gate := memstore.NewGate()
		remove := p.store.Hook(memstore.Before, memstore.OpEnqueue, gate.Pass)
		alone := p.begin("x")
		gone, late := p.begin("x"), p.begin("x") // share an arrival
		remove()
		gate.Open()
		synctest.Wait()
		give := p.store.Hook(memstore.Before, memstore.OpPutTicket, memstore.Fail(1_000_000, memstore.ErrNoReply))
		alone.cancel()
		gone.cancel()
		time.Sleep(testTTL - testMargin - time.Second)
		behind := p.begin("x")
		time.Sleep(2 * time.Second)
		require.EqualValues(b.t, 1, p.Stats().Requeued, "the ticket has failed")
		give()
		time.Sleep(time.Second)
		b.unlock(held)
		b.unlock(behind.granted())
		b.unlock(late.granted())
		b.requireIdle("x")
	})
}
