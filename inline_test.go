package fairlock

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestInLine: calls of which each begins when the one before it is in line are granted in that order, however goroutines are scheduled.
func TestInLine(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		first := p.lock("x")
		const n = 50
		order := make(chan int, n)
		for i := range n {
			placed := make(chan struct{})
			go func() {
				l, err := p.Lock(b.ctx, "x", InLine(func() { close(placed) }))
				if err == nil {
					order <- i
					err = l.Unlock(b.ctx)
				}
				if err != nil {
					t.Error(err)
				}
			}()
			<-placed
		}
		b.unlock(first)
		for i := range n {
			require.Equal(t, i, <-order)
		}
		synctest.Wait()
	})
}

func TestInLineIsRefused(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		_, err := p.Lock(b.ctx, "x", InLine(nil))
		require.ErrorIs(t, err, ErrInvalidOption)
		require.ErrorContains(t, err, "InLine is nil: must be a function")
		_, err = p.Lock(b.ctx, "", InLine(func() { t.Error("called for a call that was refused") }))
		require.ErrorIs(t, err, ErrInvalidName)
	})
}
