package fairlock

import (
	"testing"
	"time"

	"github.com/fairlock/fairlock/internal/memstore"
)

// TestCancelledCallWithoutReplyLeavesNoOrphan: the reply of an enqueue is lost, its caller gives up, and the next call of
// the same process for the same lock comes before the enqueue is repeated. It must not wait for a reaper.
func TestCancelledCallWithoutReplyLeavesNoOrphan(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		b.unlock(p.lock("warm up"))
		remove := p.store.Hook(memstore.After, memstore.OpEnqueue, memstore.Hang)
		a := p.begin("x")
		remove()
		a.cancel()
		_ = a.failed()
		next := p.begin("x")
		b.unlock(next.grantedIn(p.cfg.OpTimeout + time.Second))
		b.requireIdle("x")
	})
}
