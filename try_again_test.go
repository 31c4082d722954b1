package fairlock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTryAfterTry: a try that was granted is over when it returns. The next one of the same process is not refused because of it.
func TestTryAfterTry(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		rw, err := p.RWLock("x")
		require.NoError(b.t, err)
		for range 3000 {
			one, err := rw.TryRLock(b.ctx)
			require.NoError(b.t, err)
			two, err := rw.TryRLock(b.ctx)
			require.NoError(b.t, err, "readers read together")
			b.unlock(one)
			b.unlock(two)
		}
	})
}
