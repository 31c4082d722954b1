package waiter_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/waiter"
)

// closings is a source that looks at the contexts with which its streams are closed.
type closings struct {
	waiter.Source
	alive, dead atomic.Int64
}

func (c *closings) Begin(ctx context.Context) (waiter.Opening, error) {
	o, err := c.Source.Begin(ctx)
	return closingsOpening{o, c}, err
}

type closingsOpening struct {
	waiter.Opening
	c *closings
}

func (o closingsOpening) Open(ctx context.Context, await time.Duration, names []string) (waiter.Stream, error) {
	s, err := o.Opening.Open(ctx, await, names)
	return closingsStream{s, o.c}, err
}

type closingsStream struct {
	waiter.Stream
	c *closings
}

func (s closingsStream) Close(ctx context.Context) {
	if _, ends := ctx.Deadline(); ends && ctx.Err() == nil {
		s.c.alive.Add(1)
	} else {
		s.c.dead.Add(1)
	}
	s.Stream.Close(ctx)
}

// TestStreamsAreClosedWithALiveContext: the driver sends nothing under a context that has ended, and the cursor would stay on the
// server; and the call must not take for ever.
func TestStreamsAreClosedWithALiveContext(t *testing.T) {
	var c closings
	bubble(t, func(b *bed) {
		for range 2 { // by retiring, and by Close
			_, _, since := b.hold("x")
			b.w.Wait("x", since, 1, 1)
			b.streaming()
			if c.alive.Load() == 0 {
				b.w.Leave("x")
				time.Sleep(2 * (linger + recheck))
				require.EqualValues(b.t, 1, c.alive.Load())
			}
		}
		b.w.Close()
		require.EqualValues(b.t, 2, c.alive.Load())
		require.Zero(b.t, c.dead.Load())
	}, func(cfg *waiter.Config) {
		c.Source = cfg.Source
		cfg.Source = &c
	})
}
