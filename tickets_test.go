package fairlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
)

// TestTicketAcknowledgedTooLate: the reply of a ticket's write says that it stands, and was read after the deadline, since the machine
// slept. By then a reaper may have buried the number, settled it and taken its tombstone away: the waiter queues again.
func TestTicketAcknowledgedTooLate(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := other.lock("x")
		gate := memstore.NewGate()
		remove := p.store.Hook(memstore.After, memstore.OpPutTicket, gate.Pass)
		a := p.begin("x")
		n := b.doc("x").Issued
		<-gate.Reached()
		remove()
		p.clk.Sleep(testTTL - testMargin)
		gate.Open()
		time.Sleep(testTTL / 3) // the lease is renewed
		synctest.Wait()
		require.EqualValues(b.t, 1, p.Stats().Requeued)
		b.unlock(l)
		l = a.granted()
		require.Greater(b.t, l.Token(), n)
		b.unlock(l)
		b.requireIdle("x")
	})
}

// TestTicketBuriedAfterItStood: somebody deleted a ticket, and a reaper that found the number without one has buried it. The
// owner finds the tombstone when it writes the ticket again.
func TestTicketBuriedAfterItStood(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := other.lock("x")
		a := p.begin("x")
		n := b.doc("x").Issued
		time.Sleep(time.Second)
		b.srv.DropTicket(queue.TicketID{Lock: "x", Lo: n})
		dead, err := b.srv.Client().Queue().Bury(b.ctx, "x", []queue.Range{{Lo: n, Hi: n}})
		require.NoError(b.t, err)
		require.Len(b.t, dead, 1)
		time.Sleep(testTTL / 2) // an audit
		synctest.Wait()
		require.EqualValues(b.t, 1, p.Stats().Requeued)
		b.unlock(l)
		l = a.granted()
		require.Greater(b.t, l.Token(), n)
		b.unlock(l)
		b.requireIdle("x")
	})
}

// TestTicketsThatNobodyStandsBehind: a ticket of this session whose write was given up and took effect all the same. Nobody else
// clears it while the session lives.
func TestTicketsThatNobodyStandsBehind(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		l := p.lock("x")
		q := b.srv.Client().Queue()
		place, err := q.Enqueue(b.ctx, "y", queue.Mutex, queue.Arrival{Mark: 1, Units: 2, Grace: testTTL})
		require.NoError(b.t, err)
		require.NoError(b.t, q.PutTicket(b.ctx, queue.Ticket{
			ID: queue.TicketID{Lock: "y", Lo: place.Lo}, Hi: place.Hi, Session: p.Session(), Arrival: place.Arrival, Weight: 1,
		}, 0))
		time.Sleep(testTTL/2 + time.Second)
		b.requireIdle("y")
		require.NoError(b.t, l.Err())
		b.unlock(l)
	})
}
