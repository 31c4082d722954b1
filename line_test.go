package fairlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
)

// TestBatchesAreOfOneWeight: calls of different weights that wait for the same enqueue take their numbers by two, and exactly as many
// as they asked for.
func TestBatchesAreOfOneWeight(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		gate := memstore.NewGate()
		remove := p.store.Hook(memstore.Before, memstore.OpEnqueue, gate.Pass)
		first := p.beginUnits("x", pool, 1)
		one, two := p.beginUnits("x", pool, 1), p.beginUnits("x", pool, 2)
		remove()
		gate.Open()
		l1, l2 := first.granted(), one.granted()
		require.False(b.t, two.over(), "one unit is left")
		require.Equal(b.t, l1.Token()+3, b.doc("x").Issued, "1 and 1 and 2 numbers")
		require.EqualValues(b.t, 3, b.doc("x").Arrivals)
		b.unlock(l1)
		l3 := two.granted()
		require.Equal(b.t, l1.Token()+2, l3.Token())
		b.unlock(l2)
		b.unlock(l3)
		b.requireIdle("x")
	})
}

// TestRequeuedInTheOrderOfTheirCalls: calls that lost their numbers together queue again as they came.
func TestRequeuedInTheOrderOfTheirCalls(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := other.lock("x")
		var calls []*attempt
		for range 3 {
			calls = append(calls, p.begin("x"))
		}
		b.srv.EndSession(p.Session())
		time.Sleep(testTTL / 3)
		synctest.Wait()
		require.EqualValues(b.t, 3, p.Stats().Requeued)
		b.unlock(l)
		for i, c := range calls {
			l := c.granted()
			for _, later := range calls[i+1:] {
				require.False(b.t, later.over())
			}
			b.unlock(l)
		}
		b.requireIdle("x")
	})
}

// farAhead issues and settles so many numbers of a lock that a document made anew in the same minute starts below them.
func (b *bed) farAhead(name string) {
	q := b.srv.Client().Queue()
	p, err := q.Enqueue(b.ctx, name, queue.Mutex, queue.Arrival{Mark: 1, Units: 1 << 30, Grace: testTTL})
	require.NoError(b.t, err)
	_, err = q.Settle(b.ctx, name, []queue.Range{p.Range}, p.Arrival)
	require.NoError(b.t, err)
}

// TestADocumentMadeAnewWithLowerNumbers: what the old document said of its frontier admits nobody in the new one.
func TestADocumentMadeAnewWithLowerNumbers(t *testing.T) {
	bubble(t, func(b *bed) {
		b.farAhead("x")
		p, other := b.proc(), b.proc()
		old := p.lock("x")
		b.srv.DropLock("x")
		l := other.lock("x")
		require.Less(b.t, l.Token(), old.Token())
		a := p.begin("x")
		require.False(b.t, a.over(), "the other holds it")
		b.requireLost(old.Err(), LostSettled)
		b.unlock(l)
		b.unlock(a.granted())
		b.requireIdle("x")
		_ = old.Unlock(b.ctx)
	})
}

// TestASettleThatLostOpensNothing: the document was made anew with lower numbers while a settle of an old number is on its way. That
// all before the number behind it is settled is no news of the new document.
func TestASettleThatLostOpensNothing(t *testing.T) {
	bubble(t, func(b *bed) {
		b.farAhead("x")
		p, other := b.proc(), b.proc()
		old := p.lock("x")
		gate := memstore.NewGate()
		p.store.Hook(memstore.Before, memstore.OpSettle, gate.Pass)
		unlocked := make(chan error, 1)
		go func() { unlocked <- old.Unlock(b.ctx) }()
		<-gate.Reached()
		b.srv.DropLock("x")
		l := other.lock("x")
		a := p.begin("x")
		gate.Open()
		b.requireLost(<-unlocked, LostSettled)
		require.False(b.t, a.over(), "the other holds it")
		b.unlock(l)
		b.unlock(a.granted())
		b.requireIdle("x")
	})
}
