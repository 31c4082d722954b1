package fairlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStats(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		require.Equal(b.t, Stats{}, p.Stats())
		l := p.lock("x")
		a := q.begin("x")
		time.Sleep(time.Second)
		require.True(b.t, q.Stats().Streaming)
		b.unlock(l)
		b.unlock(a.granted())

		s := p.Stats()
		require.Equal(b.t, Stats{Grants: 1, Enqueues: 1, Settles: 1, TicketsWritten: 1, TicketsDeleted: 1}, s)
		s = q.Stats()
		require.Positive(b.t, s.Reads)
		s.Reads, s.Looks = 0, 0
		require.Equal(b.t, Stats{
			Grants: 1, Enqueues: 1, Settles: 1, TicketsWritten: 1, TicketsDeleted: 1,
			GrantsByEvent: 1, StreamsOpened: 1, Events: 1, Streaming: true,
		}, s)
		time.Sleep(10 * time.Second)
		require.False(b.t, q.Stats().Streaming, "nobody waits any more")
	})
}

func TestShortHoldsWriteNoTicket(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		for range 10 {
			l := p.lock("x")
			time.Sleep(99 * time.Millisecond)
			b.unlock(l)
		}
		require.Zero(b.t, p.Stats().TicketsWritten)
	})
}

func TestInspectAndList(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		_, err := p.Inspect(b.ctx, "x")
		require.ErrorIs(b.t, err, ErrNotFound)
		l := p.lock("x", Label("first"))
		a := q.begin("x")
		b.unlock(q.lock("idle"))
		info, err := q.Inspect(b.ctx, "x")
		require.NoError(b.t, err)
		require.Nil(b.t, info.Holders[0].Owner, "no ticket yet")
		time.Sleep(time.Second)
		info, err = q.Inspect(b.ctx, "x")
		require.NoError(b.t, err)
		require.Equal(b.t, "first", info.Holders[0].Owner.Label)
		require.Equal(b.t, time.Second, info.Holders[0].Owner.Age)
		require.Equal(b.t, testTTL-time.Second, info.Holders[0].Owner.LeaseLeft)
		require.Equal(b.t, []int{0, 1}, []int{info.Holders[0].Position, info.Waiters[0].Position})

		time.Sleep(2 * testTTL) // somebody sweeps by then, under a lock that is nobody's business
		all, err := p.List(b.ctx)
		require.NoError(b.t, err)
		require.Len(b.t, all, 2)
		require.Equal(b.t, "idle", all[0].Name)
		require.NotNil(b.t, all[0].IdleSince)
		require.Equal(b.t, []int64{1, 1}, []int64{all[1].Held, all[1].Waiting})
		b.unlock(l)
		b.unlock(a.granted())
	})
}
