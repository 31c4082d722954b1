package fairlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestForceHasNoLockDelay: inside the process too the next waits for Margin only.
func TestForceHasNoLockDelay(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(func(c *Config) { c.LockDelay = time.Minute }), b.proc()
		l, next := p.lock("x"), p.begin("x")
		b.withTicket()
		require.NoError(b.t, q.ForceUnlock(b.ctx, "x", l.Token(), "hangs"))
		<-l.Context().Done()
		told := time.Now()
		b.requireLost(l.Err(), LostForced)
		b.unlock(next.granted())
		require.LessOrEqual(b.t, time.Since(told), testMargin)
		b.requireIdle("x")
	})
}
