package fairlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
)

// all takes a set that is free.
func (p *proc) all(opts []Option, names ...string) *Set {
	p.b.t.Helper()
	s, err := p.LockAll(p.b.ctx, names, opts...)
	require.NoError(p.b.t, err)
	return s
}

func TestLockAllTakesAllInOneOrder(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		s := p.all(nil, "c", "a", "b")
		require.Equal(b.t, []string{"a", "b", "c"}, s.Names())
		require.NoError(b.t, s.Err())
		require.Positive(b.t, s.Left())
		require.Positive(b.t, s.Lock("b").Token())
		require.Nil(b.t, s.Lock("d"))
		one := q.begin("b")
		require.False(b.t, one.over())
		require.NoError(b.t, s.Unlock(b.ctx))
		require.ErrorIs(b.t, s.Err(), ErrUnlocked)
		require.ErrorIs(b.t, context.Cause(s.Context()), ErrUnlocked)
		b.unlock(one.granted())
		for _, name := range []string{"a", "b", "c"} {
			b.requireIdle(name)
		}
	})
}

func TestLockAllIsAllOrNothing(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		held := q.lock("b")
		_, err := p.LockAll(b.ctx, []string{"a", "b", "c"}, MaxWait(2*time.Second))
		require.ErrorIs(b.t, err, ErrWaitLimit)
		require.ErrorContains(b.t, err, `"b"`)
		b.requireIdle("a")
		b.unlock(held)
		b.requireIdle("b")
		_, found := b.srv.Lock("c")
		require.False(b.t, found)
	})
}

// TestLockAllSharesOneWaitLimit: MaxWait is for the whole call, not for each name.
func TestLockAllSharesOneWaitLimit(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		held := []*Lock{q.lock("a"), q.lock("b")}
		began := time.Now()
		time.AfterFunc(3*time.Second, func() { _ = held[0].Unlock(context.Background()) })
		_, err := p.LockAll(b.ctx, []string{"a", "b"}, MaxWait(5*time.Second))
		require.ErrorIs(b.t, err, ErrWaitLimit)
		require.Equal(b.t, 5*time.Second, time.Since(began))
		b.unlock(held[1])
	})
}

func TestLosingOneIsLosingAll(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		s := p.all(nil, "a", "b")
		next := q.begin("b")
		s.Lock("a").lose(LostSettled)
		<-s.Context().Done()
		synctest.Wait()
		b.requireLost(context.Cause(s.Context()), LostSettled)
		b.requireLost(s.Lock("b").Err(), LostOther)
		require.False(b.t, next.over(), "the holder has a margin to stop")
		b.requireLost(s.Unlock(b.ctx), LostSettled)
		b.unlock(next.granted())
	})
}

// TestLockAllEndsWithAnEarlierLoss: who has lost the first does not go on waiting for the second.
func TestLockAllEndsWithAnEarlierLoss(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		held := q.lock("b")
		set := b.attempt(func(ctx context.Context) (*Lock, error) {
			_, err := p.LockAll(ctx, []string{"a", "b"})
			return nil, err
		})
		b.withTicket()
		first := b.doc("a").Issued
		require.NoError(b.t, q.ForceUnlock(b.ctx, "a", first, "hangs"))
		time.Sleep(testTTL / 3)
		b.requireLost(set.failed(), LostForced)
		require.NoError(b.t, held.Err())
		b.unlock(held)
		b.requireIdle("a")
		b.requireIdle("b")
	})
}

func TestMaxHoldOfASetBeginsAtItsReturn(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		held := q.lock("b")
		time.AfterFunc(5*time.Second, func() { _ = held.Unlock(context.Background()) })
		s := p.all([]Option{MaxHold(2 * time.Second)}, "a", "b")
		require.NoError(b.t, s.Err())
		require.Equal(b.t, 2*time.Second, s.Left())
		time.Sleep(2 * time.Second)
		b.requireLost(s.Err(), LostMaxHold)
		require.ErrorIs(b.t, s.Unlock(b.ctx), ErrLost)
	})
}

func TestLockAllRefusesBadNames(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		for _, c := range []struct {
			names []string
			why   string
		}{
			{nil, "must be at least one"},
			{[]string{"a", "b", "a"}, `"a": must not be named twice`},
			{strings.Split(strings.Repeat("x,", 1001), ","), "must be at most 1000"},
		} {
			_, err := p.LockAll(b.ctx, c.names)
			require.ErrorIs(b.t, err, ErrInvalidOption)
			require.ErrorContains(b.t, err, c.why)
		}
		_, err := p.LockAll(b.ctx, []string{"a", ""})
		require.ErrorIs(b.t, err, ErrInvalidName)
		_, err = p.LockAll(b.ctx, []string{"a"}, MaxWait(-1))
		require.ErrorIs(b.t, err, ErrInvalidOption)
		_, found := b.srv.Lock("a")
		require.False(b.t, found, "nothing was written")
	})
}

// TestLockAllNeverDeadlocks: random subsets in random orders from many callers in several processes; all get done, and no name has two
// holders.
func TestLockAllNeverDeadlocks(t *testing.T) {
	bubble(t, func(b *bed) {
		procs := []*proc{b.proc(), b.proc(), b.proc()}
		holder := map[string]int{}
		var mu sync.Mutex // guards holder
		var callers sync.WaitGroup
		for c := range 50 {
			rng := rand.New(rand.NewPCG(uint64(c), 7))
			callers.Go(func() {
				for range 20 {
					var names []string
					for _, n := range rng.Perm(20)[:1+rng.IntN(5)] {
						names = append(names, fmt.Sprintf("name %d", n))
					}
					s, err := procs[c%3].LockAll(b.ctx, names)
					if err != nil {
						b.t.Error(err)
						return
					}
					mu.Lock()
					for _, n := range names {
						if holder[n] != 0 {
							b.t.Errorf("%s has two holders", n)
						}
						holder[n] = c + 1
					}
					mu.Unlock()
					time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
					mu.Lock()
					for _, n := range names {
						holder[n] = 0
					}
					mu.Unlock()
					if err := s.Unlock(b.ctx); err != nil {
						b.t.Error(err)
					}
				}
			})
		}
		callers.Wait()
	})
}

// TestLeftOfOneOfASetIsThatOfAll: losing one of a set is losing all, so no lock of it surely has more than the one with the least.
func TestLeftOfOneOfASetIsThatOfAll(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		p.store.Hook(memstore.Before, memstore.OpPutTicket, func(ctx context.Context, name string) error {
			if name != "a" {
				return nil
			}
			return memstore.Hang(ctx, name)
		})
		s := p.all(nil, "a", "b")
		time.Sleep(7 * time.Second) // b has its ticket
		promised := s.Lock("b").Left()
		began := time.Now()
		<-s.Context().Done()
		b.requireLost(s.Lock("b").Err(), LostOther)

		require.GreaterOrEqual(t, time.Since(began), promised)
	})
}
