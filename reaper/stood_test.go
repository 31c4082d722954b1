package reaper_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
)

// TestALookAfterAMoveReadsTickets: what an earlier look found is good only for the document that it was found under.
func TestALookAfterAMoveReadsTickets(t *testing.T) {
	bubble(t, func(b *bed) {
		b.lease()
		first, second := b.place(name, "s"), b.place(name, "s")
		r := b.reaper()
		look := func(reads int) {
			b.t.Helper()
			_, err := r.Examine(b.ctx, behind(second))
			require.NoError(b.t, err)
			require.Equal(b.t, reads, b.Calls(memstore.OpTickets))
		}
		look(1)
		look(1)
		_, err := b.Queue().Settle(b.ctx, name, []queue.Range{first.Range}, first.Arrival)
		require.NoError(b.t, err)
		look(2)
		require.Len(b.t, b.srv.Tickets(), 1, "that of the settled number was in the way")
	})
}

// TestHalfOfATicketIsNoGarbage: a ticket stands until all its numbers are settled.
func TestHalfOfATicketIsNoGarbage(t *testing.T) {
	bubble(t, func(b *bed) {
		b.lease()
		p := b.enqueue(name, 3)
		require.NoError(b.t, b.ticket(name, p, "s"))
		_, err := b.Queue().Settle(b.ctx, name, []queue.Range{{Lo: p.Lo, Hi: p.Lo + 1}}, 0)
		require.NoError(b.t, err)
		_, err = b.reaper().Examine(b.ctx, behind(b.enqueue(name, 1)))
		require.NoError(b.t, err)
		require.Len(b.t, b.srv.Tickets(), 1)
	})
}

// TestWhatWasSeenBeforeAnOutageIsNoEvidence: this process's own lease has lapsed since it saw a beat first; nobody could renew, so the beat
// has to stand for a whole ttl again.
func TestWhatWasSeenBeforeAnOutageIsNoEvidence(t *testing.T) {
	bubble(t, func(b *bed) {
		b.begin("slow to come back")
		p := b.place(name, "slow to come back")
		var outages atomic.Int64
		r := reaper.New(reaper.Config{
			TTL: ttl, OpTimeout: 5 * time.Second, Clock: b.clk, Queue: b.Queue(), Sessions: b.Sessions(),
			Log: slog.New(slog.DiscardHandler), Outages: outages.Load,
		})
		look := func() bool {
			_, err := r.Examine(b.ctx, behind(p))
			require.NoError(b.t, err)
			return b.isEnded("slow to come back")
		}
		require.False(b.t, look())
		time.Sleep(10 * ttl)
		outages.Add(1)
		require.False(b.t, look(), "seen before the outage")
		time.Sleep(ttl - time.Millisecond)
		require.False(b.t, look())
		time.Sleep(time.Millisecond)
		require.True(b.t, look())
	})
}
