package gateway

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
)

// TestCloseTellsAndHandsOn: everybody is told, and another gateway's clients go on at once.
func TestCloseTellsAndHandsOn(t *testing.T) {
	bubble(t, func(b *bed) {
		other := b.beside()
		defer other.end()
		c := b.alice()
		holder := c.stream("a", x)
		token := holder.holds().Token
		inLine := c.stream("b", x)
		inLine.want("waiting")
		polled := make(chan *reply, 1)
		go func() { polled <- b.client(bobToken).put("c", time.Minute, x) }()
		watched := c.open("GET", "/v1/watch", "")
		watched.want("locks")
		theirs := other.alice().stream("d", x)
		theirs.want("waiting")
		synctest.Wait()

		began := time.Now()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			b.close()
		}()
		require.Equal(t, isClosing, holder.want("closing").lease.Reason)
		holder.over()
		ev := inLine.want("closing")
		require.Equal(t, "left", ev.lease.State)
		require.Equal(t, isClosing, ev.lease.Reason)
		inLine.over()
		watched.want("closing")
		watched.over()
		r := <-polled
		require.Equal(t, 503, r.status)
		require.Equal(t, "1", r.header.Get("Retry-After"))
		require.Equal(t, "urn:fairlock:closing", r.problem(t).Type)
		require.Equal(t, "held", theirs.next().name)
		require.Less(t, time.Since(began), time.Second)
		require.Greater(t, other.alice().look("d").Token, token)
		<-closed
		require.Less(t, time.Since(began), 2*time.Second)
		require.EqualValues(t, 0, b.m.Stats().Lost, "a hold that is given back in order is not lost to fairlock")
		require.NoError(t, b.s.Close(context.Background()), "may be repeated")

		// The next process of the gateway takes the same ids.
		again := b.beside()
		defer again.end()
		again.alice().queued("a", x)
		theirs.drop()
		other.alice().release("d")
		again.alice().held("a", x)
	})
}

// TestClosingAnswers: while the gateway closes it answers, and takes nothing new.
func TestClosingAnswers(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", x)
		// A settle that does not come back keeps Close from going on.
		remove := b.store.Hook(memstore.Before, memstore.OpSettle, memstore.Hang)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			b.close()
		}()
		synctest.Wait()
		for path, status := range map[string]int{"/healthz": 503, "/v1/watch": 503, "/v1/leases/" + id("a"): 200} {
			require.Equal(t, status, c.do("GET", path, "").status, path)
		}
		again := c.open("GET", "/v1/leases/"+id("a")+"/events", "")
		require.Equal(t, isClosing, again.want("closing").lease.Reason)
		again.over()
		require.Equal(t, 503, c.put("new", 0, x).status)
		r := c.beat("a")
		require.Equal(t, 410, r.status)
		require.Equal(t, isClosing, r.problem(t).Lease.Reason)
		remove()
		<-closed
	})
}

// TestCloseKeepsItsWord: what is not held by a stream is handed on when its client says that it has stopped, or when it believes no more that it holds; to be told
// is not to have stopped.
func TestCloseKeepsItsWord(t *testing.T) {
	const beats = x + `,"renew":"heartbeat"`
	for name, lease := range map[string]struct {
		fields string
		open   bool // a stream
		stops  bool
	}{
		"silent": {fields: beats}, "silent, by connection": {fields: x},
		"told by a stream": {fields: beats, open: true}, "told by a stream, stops": {fields: beats, open: true, stops: true},
		"stops": {fields: beats, stops: true}, "by connection, stops": {fields: x, stops: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bed) {
				other := b.beside()
				defer other.end()
				c := b.alice()
				left := time.Duration(c.held("a", lease.fields).LeftMs) * time.Millisecond
				promised := time.Now().Add(left)
				if lease.open {
					e := c.stream("a", lease.fields)
					promised = time.Now().Add(time.Duration(e.holds().LeftMs) * time.Millisecond)
					defer e.drop()
				}
				theirs := other.alice().stream("b", x)
				theirs.want("waiting")
				time.Sleep(time.Second)
				closed := make(chan struct{})
				go func() {
					defer close(closed)
					b.close()
				}()
				defer func() { <-closed }() // also when the test fails: nothing may be left in the bubble
				synctest.Wait()
				r := c.beat("a")
				require.Equal(t, 410, r.status)
				require.Equal(t, isClosing, r.problem(t).Lease.Reason)
				synctest.Wait()
				require.Equal(t, "waiting", other.alice().look("b").State)
				stopped := time.Now()
				if lease.stops {
					require.Equal(t, 410, c.release("a").status)
				}
				require.Equal(t, "held", theirs.next().name)
				if lease.stops {
					require.Less(t, time.Since(stopped), 100*time.Millisecond)
				} else {
					require.False(t, time.Now().Before(promised), "before its time")
					require.Less(t, time.Since(promised), 100*time.Millisecond)
				}
			})
		})
	}
}

// TestCloseGivesUp: Close returns when its context ends, whatever the database does.
func TestCloseGivesUp(t *testing.T) {
	bubble(t, func(b *bed) {
		b.alice().held("a", x)
		remove := b.store.Hook(memstore.Before, memstore.OpSettle, memstore.Hang)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, b.s.Close(ctx), context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(began))
		require.NoError(t, <-b.served)
		b.served <- nil
		remove()
	})
}

// TestServeEndsWithItsListener: a listener that fails is an error.
func TestServeEndsWithItsListener(t *testing.T) {
	bubble(t, func(b *bed) {
		require.NoError(t, b.ln.Close())
		err := <-b.served
		require.Error(t, err)
		require.NotErrorIs(t, err, http.ErrServerClosed)
		b.served <- nil
	})
}
