package fairlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestElection(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q, o := b.proc(), b.proc(), b.proc()
		of := func(p *proc) *Election {
			e, err := p.Election("lead")
			require.NoError(b.t, err)
			return e
		}
		_, err := of(o).Leader(b.ctx)
		require.ErrorIs(b.t, err, ErrNoLeader)
		seen := make(chan Leader, 10)
		ctx, cancel := context.WithCancel(b.ctx)
		observed := make(chan struct{})
		go func() {
			defer close(observed)
			for l, err := range of(o).Observe(ctx) {
				require.NoError(b.t, err)
				seen <- l
			}
		}()
		first, err := of(p).Campaign(b.ctx, "p:1")
		require.NoError(b.t, err)
		won := make(chan *Leadership, 1)
		go func() {
			l, err := of(q).Campaign(b.ctx, "q:1")
			require.NoError(b.t, err)
			won <- l
		}()
		l := <-seen
		require.Equal(b.t, "p:1", l.Value)
		require.Equal(b.t, first.Token(), l.Token)
		require.Equal(b.t, p.Session(), l.Session)
		require.NoError(b.t, first.Err())
		require.Positive(b.t, first.Left())
		require.NoError(b.t, first.Resign(b.ctx))
		<-first.Done()
		second := <-won
		require.Greater(b.t, second.Token(), first.Token())
		require.Equal(b.t, "q:1", (<-seen).Value)
		time.Sleep(10 * time.Second)
		require.Empty(b.t, seen, "nothing has changed")
		require.NoError(b.t, second.Resign(b.ctx))
		cancel()
		<-observed
		_, err = p.Election("")
		require.ErrorIs(b.t, err, ErrInvalidName)
		_, err = of(p).Campaign(b.ctx, "\xff")
		require.ErrorIs(b.t, err, ErrInvalidOption)
	})
}
