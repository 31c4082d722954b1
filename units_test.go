package fairlock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReleaseKeepsTheToken: units that are given back admit the next, and what is left goes on under the same token.
func TestReleaseKeepsTheToken(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		s := p.semaphore("x", 4)
		l := p.beginAcquire(s, 4).granted()
		token := l.Token()
		one, two := q.beginAcquire(q.semaphore("x", 4), 1), q.beginAcquire(q.semaphore("x", 4), 2)
		require.NoError(b.t, l.Release(b.ctx, 1))
		first := one.granted()
		require.Equal(b.t, []int64{3, token}, []int64{l.Units(), l.Token()})
		require.NoError(b.t, l.Err())
		require.False(b.t, two.over())
		require.NoError(b.t, l.Release(b.ctx, 2))
		second := two.granted()
		require.EqualValues(b.t, 1, l.Units())
		v := b.doc("x")
		require.Less(b.t, v.Settled, token, "the token's own number is the last one that is given back")
		b.unlock(l)
		b.unlock(first)
		b.unlock(second)
		b.requireIdle("x")
	})
}

func TestReleaseBadInput(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		l := p.beginAcquire(p.semaphore("x", 4), 3).granted()
		for _, n := range []int64{-1, 0, 3, 4} {
			err := l.Release(b.ctx, n)
			require.ErrorIs(b.t, err, ErrInvalidOption)
			require.ErrorContains(b.t, err, "must be at least 1 and less than the 3 units held")
		}
		require.EqualValues(b.t, 3, l.Units())
		m := p.lock("y")
		require.ErrorIs(b.t, m.Release(b.ctx, 1), ErrInvalidOption)
		b.unlock(m)
		b.unlock(l)
		require.ErrorIs(b.t, l.Release(b.ctx, 1), ErrUnlocked)
		b.requireIdle("x")
	})
}
