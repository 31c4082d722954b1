package fairlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
)

// TestNothingIsAskedForDuringALapse: numbers that could not be trusted would only have to be given back.
func TestNothingIsAskedForDuringALapse(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		b.unlock(p.lock("warm up"))
		remove := p.store.Hook(memstore.Before, memstore.OpRenew, memstore.Fail(1000, memstore.ErrNoReply))
		time.Sleep(testTTL)
		asked := func() int { return p.store.Calls(memstore.OpEnqueue) + p.store.Calls(memstore.OpTry) }
		before := asked()
		require.ErrorIs(b.t, p.beginTry("x").failed(), errNotTrusted)
		a := p.begin("x")
		time.Sleep(time.Second)
		require.False(b.t, a.over())
		require.Equal(b.t, before, asked())
		remove()
		b.unlock(a.grantedIn(2 * time.Second))
		b.requireIdle("x")
	})
}

// TestTryUnderALeaseThatBreaks: the server admitted the number, and the lease lapsed before the reply was there. A try does not wait
// for the lease to be renewed.
func TestTryUnderALeaseThatBreaks(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		b.unlock(p.lock("warm up"))
		remove := p.store.Hook(memstore.Before, memstore.OpRenew, memstore.Fail(1000, memstore.ErrNoReply))
		time.Sleep(testTTL - testMargin - time.Second)
		gate := memstore.NewGate()
		p.store.Hook(memstore.After, memstore.OpTry, gate.Pass)
		a := p.beginTry("x")
		<-gate.Reached()
		time.Sleep(2 * time.Second)
		gate.Open()
		require.ErrorIs(b.t, a.failed(), errNotTrusted)
		b.requireIdle("x")
		remove()
	})
}
