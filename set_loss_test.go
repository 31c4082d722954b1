package fairlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestASetSaysWhyItWasLost: whichever of the locks it was, whoever notices first, and however often it is asked.
func TestASetSaysWhyItWasLost(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		for _, name := range []string{"a", "b", "c"} {
			for _, notices := range []bool{false, true} {
				s := p.all(nil, "a", "b", "c")
				s.Lock(name).lose(LostSettled)
				if notices {
					b.requireLost(s.Err(), LostSettled)
				}
				synctest.Wait()
				b.requireLost(s.Err(), LostSettled)
				b.requireLost(context.Cause(s.Context()), LostSettled)
				b.requireLost(s.Unlock(b.ctx), LostSettled)
				b.requireLost(s.Err(), LostSettled)
			}
		}
	})
}

// TestASetOfWhichOneIsUnlocked: its loss is told before that.
func TestASetOfWhichOneIsUnlocked(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		s := p.all(nil, "a", "b")
		b.unlock(s.Lock("a"))
		require.ErrorIs(b.t, s.Err(), ErrUnlocked)
		require.ErrorIs(b.t, context.Cause(s.Context()), ErrUnlocked)
		require.NoError(b.t, s.Lock("b").Err())
		s.Lock("b").lose(LostSettled)
		b.requireLost(s.Err(), LostSettled)
		b.requireLost(s.Unlock(b.ctx), LostSettled)
	})
}

// TestTheOthersOfALostSetRestToo: with a lock-delay nobody gets one of them before it is over, whatever the holder says: what he has begun goes on with all of
// them (the simulator, seed 728312).
func TestTheOthersOfALostSetRestToo(t *testing.T) {
	bubble(t, func(b *bed) {
		const delay = time.Minute
		p, q := b.proc(func(c *Config) { c.LockDelay = delay }), b.proc()
		s := p.all(nil, "a", "b")
		next := q.begin("b")
		s.Lock("a").lose(LostTicket)
		synctest.Wait()
		b.requireLost(s.Unlock(b.ctx), LostTicket)
		synctest.Wait()
		require.False(b.t, next.over())
		began := time.Now()
		b.unlock(next.grantedIn(2 * delay))
		require.GreaterOrEqual(b.t, time.Since(began), delay)
	})
}
