package gateway

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
)

// TestReady: it follows the database, asks it once a second whoever asks here, and tells nobody what it says.
func TestReady(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.client("")
		before := b.store.Calls(memstore.OpView)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { require.Equal(t, 200, b.client("").do("GET", "/readyz", "").status) })
		}
		wg.Wait()
		require.Equal(t, before+1, b.store.Calls(memstore.OpView))

		remove := b.store.Hook(memstore.Before, memstore.OpView, memstore.Fail(1000, memstore.ErrNoReply))
		require.Equal(t, 200, c.do("GET", "/readyz", "").status, "of a moment ago")
		time.Sleep(probeEvery)
		r := c.do("GET", "/readyz", "")
		require.Equal(t, 503, r.status)
		require.Equal(t, "1", r.header.Get("Retry-After"))
		require.Equal(t, "urn:fairlock:not-ready", r.problem(t).Type)
		require.NotContains(t, string(r.body), "no reply")
		require.Equal(t, 200, c.do("GET", "/healthz", "").status, "it is alive")
		remove()
		time.Sleep(probeEvery)
		require.Equal(t, 200, c.do("GET", "/readyz", "").status)

		// It does not answer at all.
		remove = b.store.Hook(memstore.Before, memstore.OpView, memstore.Hang)
		time.Sleep(probeEvery)
		began := time.Now()
		require.Equal(t, 503, c.do("GET", "/readyz", "").status)
		require.Equal(t, probeLimit, time.Since(began))
		remove()

		// While it shuts down it is neither.
		b.alice().held("a", x)
		remove = b.store.Hook(memstore.Before, memstore.OpSettle, memstore.Hang)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			b.close()
		}()
		synctest.Wait()
		require.Equal(t, "urn:fairlock:closing", c.do("GET", "/readyz", "").problem(t).Type)
		remove()
		<-closed
	})
}
