package gateway

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
)

// snap takes the newest snapshot that has come.
func (e *events) snap() (s snapshot) {
	e.c.b.t.Helper()
	synctest.Wait()
	ev := e.next()
	for len(e.in) > 0 {
		ev = e.next()
	}
	require.NoError(e.c.b.t, ev.err)
	require.Equal(e.c.b.t, "locks", ev.name)
	require.NoError(e.c.b.t, json.Unmarshal(ev.data, &s))
	return s
}

// TestWatch: what moves is seen within a second, and nothing is read while nobody looks.
func TestWatch(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", x+`,"label":"first","heartbeatMs":600000`)
		for i := range 3 {
			c.queued(fmt.Sprint("w", i), x+`,"heartbeatMs":600000`)
		}
		before := b.store.Calls(memstore.OpPage)
		time.Sleep(time.Minute)
		require.Equal(t, before, b.store.Calls(memstore.OpPage), "nobody watches")

		w := c.open("GET", "/v1/watch", "")
		s := w.snap()
		require.Len(t, s.Locks, 1)
		require.Equal(t, "x", s.Locks[0].Name)
		require.Equal(t, "alice/first", s.Locks[0].Holders[0].Owner.Label)
		require.Len(t, s.Locks[0].Waiters, 3)
		require.EqualValues(t, 3, s.Gateway.Waiting)
		require.EqualValues(t, 1, s.Gateway.Held)
		later := b.client(eveToken).open("GET", "/v1/watch", "")
		require.Equal(t, s.Locks, later.snap().Locks, "at once, what the others see")

		began := time.Now()
		c.release("a")
		s = w.snap()
		require.LessOrEqual(t, time.Since(began), 500*time.Millisecond)
		require.Len(t, s.Locks[0].Waiters, 2)
		require.Len(t, s.Locks[0].Holders, 1)
		require.Equal(t, c.look("w0").Token, s.Locks[0].Holders[0].Token)
		require.Len(t, later.snap().Locks[0].Waiters, 2)

		// Nothing changes: it comes again now and then, for clocks.
		time.Sleep(feedEvery)
		w.snap()
		began = time.Now()
		w.next()
		require.GreaterOrEqual(t, time.Since(began), feedRepeat-feedEvery)

		// The database is out of reach: that is said, beside what was last seen.
		remove := b.store.Hook(memstore.Before, memstore.OpPage, memstore.Fail(1000, memstore.ErrNoReply))
		time.Sleep(feedEvery)
		s = w.snap()
		require.Contains(t, s.Trouble, "no reply")
		require.Len(t, s.Locks[0].Waiters, 2)
		remove()
		time.Sleep(feedEvery)
		require.Empty(t, w.snap().Trouble)

		for i := range 3 {
			c.release(fmt.Sprint("w", i))
		}
		time.Sleep(feedEvery)
		s = w.snap()
		require.Empty(t, s.Locks)
		require.Equal(t, 1, s.Idle)

		w.drop()
		later.drop()
		synctest.Wait()
		before = b.store.Calls(memstore.OpPage)
		time.Sleep(time.Minute)
		require.Equal(t, before, b.store.Calls(memstore.OpPage), "nobody watches any more")
	})
}

// TestWatchIsBounded: many locks and long queues are cut, and counted.
func TestWatchIsBounded(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		for i := range feedLocks + 5 {
			c.held(fmt.Sprint("a", i), fmt.Sprintf(`"name":"lock %d","heartbeatMs":600000`, i))
		}
		for i := range feedPlaces + 7 {
			c.queued(fmt.Sprint("w", i), `"name":"lock 7","heartbeatMs":600000`)
		}
		synctest.Wait() // the last of them is in line here, and on its way to the database
		w := c.open("GET", "/v1/watch", "")
		s := w.snap()
		require.Len(t, s.Locks, feedLocks)
		require.Equal(t, 5, s.More)
		require.Equal(t, "lock 7", s.Locks[0].Name, "the longest queue first")
		require.Len(t, s.Locks[0].Waiters, feedPlaces)
		require.EqualValues(t, 7, s.Locks[0].More)
		require.EqualValues(t, feedPlaces+7, s.Locks[0].Waiting)
	})
}

// TestWatchOfOthers: a document under a name that breaks the rule keeps nobody from seeing the others.
func TestWatchOfOthers(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", x)
		const bad = "a\x1b[2J"
		q := b.store.Queue()
		place, err := q.Enqueue(t.Context(), bad, queue.Mutex, queue.Arrival{Owner: 1, Mark: 1, Units: 1})
		require.NoError(t, err)
		s := c.open("GET", "/v1/watch", "").snap()
		require.Empty(t, s.Trouble)
		require.Len(t, s.Locks, 1)
		require.Equal(t, "x", s.Locks[0].Name)
		require.Equal(t, 200, c.do("GET", "/v1/locks", "").status)
		require.Equal(t, 400, c.do("GET", "/v1/queue?name=a%1b[2J", "").status)
		_, err = q.Settle(t.Context(), bad, []queue.Range{place.Range}, place.Arrival)
		require.NoError(t, err)
	})
}
