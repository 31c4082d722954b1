package fairlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
)

// TestInspectNamesTheHolderAfterALocalHandOver: arrivals of their own in one run, passed on without a write.
func TestInspectNamesTheHolderAfterALocalHandOver(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := other.lock("x")
		var calls []*attempt
		for _, label := range []string{"a", "b", "c"} {
			calls = append(calls, p.begin("x", Label(label)))
		}
		time.Sleep(time.Second)
		b.unlock(l)
		b.unlock(calls[0].granted())
		time.Sleep(2 * time.Second) // the ticket is told every second
		info, err := other.Inspect(b.ctx, "x")
		require.NoError(b.t, err)
		require.Len(b.t, info.Holders, 1)
		require.Equal(b.t, "b", info.Holders[0].Owner.Label)
		require.Equal(b.t, calls[1].granted().Token(), info.Holders[0].Token)
		require.Len(b.t, info.Waiters, 1)
		require.Equal(b.t, "c", info.Waiters[0].Owner.Label)
		b.unlock(calls[1].granted())
		b.unlock(calls[2].granted())
		b.requireIdle("x")
	})
}

// TestInspectShowsThoseBeforeACancelledOne: the middle one of three that share a ticket gives up.
func TestInspectShowsThoseBeforeACancelledOne(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := other.lock("x")
		gate := memstore.NewGate()
		p.store.Hook(memstore.Before, memstore.OpEnqueue, gate.Pass)
		var calls []*attempt
		for _, label := range []string{"a", "b", "c", "d"} {
			calls = append(calls, p.begin("x", Label(label)))
		}
		gate.Open()
		synctest.Wait()
		time.Sleep(time.Second)
		calls[2].cancel()
		require.Error(b.t, calls[2].failed())
		time.Sleep(2 * time.Second)
		info, err := other.Inspect(b.ctx, "x")
		require.NoError(b.t, err)
		var labels []string
		for _, w := range info.Waiters {
			labels = append(labels, w.Owner.Label)
		}
		// c may be seen until it is settled; a, b and d must be.
		require.Subset(b.t, labels, []string{"a", "b", "d"})
		b.unlock(l)
		for _, i := range []int{0, 1, 3} {
			b.unlock(calls[i].granted())
		}
		b.requireIdle("x")
	})
}

// TestInspectShowsUnits: how many a place holds or waits for; not those that were given back.
func TestInspectShowsUnits(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q, other := b.proc(), b.proc(), b.proc()
		s := p.semaphore("x", 6)
		three := p.beginAcquire(s, 3).granted()
		two := p.beginAcquire(s, 2).granted()
		four := q.beginAcquire(q.semaphore("x", 6), 4)
		units := func() (u []int64) {
			info, err := other.Inspect(b.ctx, "x")
			require.NoError(b.t, err)
			for _, place := range append(info.Holders, info.Waiters...) {
				u = append(u, place.Units)
			}
			return u
		}
		synctest.Wait()
		require.Equal(b.t, []int64{1, 1, 1, 1, 1, 1, 1, 1, 1}, units(), "nobody knows yet whose they are")
		time.Sleep(2 * time.Second)
		require.Equal(b.t, []int64{3, 2, 4}, units())
		require.NoError(b.t, three.Release(b.ctx, 2))
		require.Equal(b.t, []int64{1, 2, 4}, units())
		b.unlock(two)
		require.Equal(b.t, []int64{1, 4}, units())
		b.unlock(three)
		b.unlock(four.granted())

		w := p.beginAcquire(p.semaphore("y", 1), 1).granted()
		time.Sleep(2 * time.Second)
		info, err := other.Inspect(b.ctx, "y")
		require.NoError(b.t, err)
		require.EqualValues(b.t, 1, info.Holders[0].Units)
		b.unlock(w)
	})
}

// TestListTellsBadNames: a document under a name that breaks the rule is somebody else's, however well it is made: what List shows as a lock can be
// given to Inspect.
func TestListTellsBadNames(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		l := p.lock("x")
		const bad = "a\x1b[2J"
		place, err := p.store.Queue().Enqueue(b.ctx, bad, queue.Mutex, queue.Arrival{Owner: 1, Mark: 1, Units: 1})
		require.NoError(b.t, err)
		all, err := p.List(b.ctx)
		require.NoError(b.t, err)
		require.Len(b.t, all, 2)
		require.Equal(b.t, bad, all[0].Name)
		require.Contains(b.t, all[0].Malformed, "must not contain the control character")
		require.Zero(b.t, all[0].Held)
		require.Empty(b.t, all[1].Malformed)
		_, err = p.store.Queue().Settle(b.ctx, bad, []queue.Range{place.Range}, place.Arrival)
		require.NoError(b.t, err)
		b.unlock(l)
	})
}
