package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

var setCases = []testCase{
	{"takes all in one order", takesAll},
	{"all or none", allOrNone},
	{"a context that ends during the wait", setCancelled},
	{"losing one is losing all", losingOne},
	{"MaxHold of a set", setMaxHold},
	{"Unlock of one ends the context of all", unlockOfOne},
	{"random sets deadlock never", randomSets},
}

func (b *bed) all(p *Process, names []string, opts ...fairlock.Option) *fairlock.Set {
	b.t.Helper()
	s, err := p.LockAll(b.ctx, names, opts...)
	require.NoError(b.t, err)
	return s
}

func takesAll(b *bed) {
	p, q := b.process(), b.process()
	s := b.all(p, []string{"c", "a", "b"})
	require.Equal(b.t, []string{"a", "b", "c"}, s.Names())
	require.NoError(b.t, s.Err())
	require.Positive(b.t, s.Left())
	require.Positive(b.t, s.Lock("b").Token())
	require.Nil(b.t, s.Lock("d"))
	for _, name := range s.Names() {
		_, err := q.TryLock(b.ctx, name)
		require.ErrorIs(b.t, err, fairlock.ErrBusy)
	}
	next := b.wait(q, "b")
	require.NoError(b.t, s.Unlock(b.ctx))
	require.ErrorIs(b.t, s.Err(), fairlock.ErrUnlocked)
	<-s.Context().Done()
	require.ErrorIs(b.t, context.Cause(s.Context()), fairlock.ErrUnlocked)
	b.unlock(next.granted())
}

func allOrNone(b *bed) {
	p, q := b.process(), b.process()
	held := b.lock(q, "b")
	_, err := p.LockAll(b.ctx, []string{"a", "b", "c"}, fairlock.MaxWait(50*time.Millisecond))
	require.ErrorIs(b.t, err, fairlock.ErrWaitLimit)
	b.unlock(b.lock(q, "a")) // given back in the background
	require.Zero(b.t, b.issued(q, "c"), "the one behind it was not asked for")
	b.unlock(held)
}

func setCancelled(b *bed) {
	p, q := b.process(), b.process()
	held := b.lock(q, "b")
	ctx, cancel := context.WithCancel(b.ctx)
	failed := make(chan error, 1) // one result
	go func() {
		_, err := p.LockAll(ctx, []string{"b", "a"})
		failed <- err
	}()
	b.until("a number of b", func() bool { return b.issued(q, "b") > held.Token() })
	cancel()
	require.ErrorIs(b.t, <-failed, context.Canceled)
	b.unlock(b.lock(q, "a"))
	b.unlock(held)
}

func losingOne(b *bed) {
	p, q := b.process(short), b.process(short)
	s := b.all(p, []string{"a", "b"})
	next := b.wait(q, "b")
	for _, name := range s.Names() {
		b.seen(q, name, s.Lock(name).Token())
	}
	p.Cut()
	got := next.granted()
	b.requireLost(s.Err(), fairlock.LostLease)
	<-s.Context().Done()
	for _, name := range s.Names() {
		require.ErrorIs(b.t, s.Lock(name).Err(), fairlock.ErrLost)
	}
	require.Zero(b.t, s.Left())
	p.Heal()
	b.requireLost(s.Unlock(b.ctx), fairlock.LostLease)
	b.unlock(got)
	b.unlock(b.lock(q, "a"))
}

func setMaxHold(b *bed) {
	p, q := b.process(), b.process()
	s := b.all(p, []string{"a", "b"}, fairlock.MaxHold(20*time.Millisecond))
	<-s.Context().Done()
	b.requireLost(context.Cause(s.Context()), fairlock.LostMaxHold)
	require.ErrorIs(b.t, s.Err(), fairlock.ErrLost)
	require.ErrorIs(b.t, s.Unlock(b.ctx), fairlock.ErrLost)
	b.unlock(b.lock(q, "a"))
	b.unlock(b.lock(q, "b"))
}

func unlockOfOne(b *bed) {
	p, q := b.process(), b.process()
	s := b.all(p, []string{"a", "b"})
	b.unlock(s.Lock("a"))
	<-s.Context().Done()
	require.ErrorIs(b.t, context.Cause(s.Context()), fairlock.ErrUnlocked)
	b.unlock(b.lock(q, "a"))
	_, err := q.TryLock(b.ctx, "b")
	require.ErrorIs(b.t, err, fairlock.ErrBusy)
	require.NoError(b.t, s.Unlock(b.ctx))
}

func randomSets(b *bed) {
	const callers, rounds, names = 8, 5, 6
	procs := b.processes(2)
	var mu sync.Mutex // guards holder
	holder := map[string]int{}
	var all sync.WaitGroup
	for c := range callers {
		rng := rand.New(rand.NewPCG(uint64(c), 1))
		all.Go(func() {
			for range rounds {
				var want []string
				for _, n := range rng.Perm(names)[:1+rng.IntN(3)] {
					want = append(want, fmt.Sprintf("name %d", n))
				}
				s, err := procs[c%2].LockAll(b.ctx, want)
				if err != nil {
					b.t.Error(err)
					return
				}
				mu.Lock()
				for _, n := range want {
					if holder[n] != 0 {
						b.t.Errorf("%s has two holders", n)
					}
					holder[n] = c + 1
				}
				mu.Unlock()
				mu.Lock()
				for _, n := range want {
					holder[n] = 0
				}
				mu.Unlock()
				if err := s.Unlock(b.ctx); err != nil {
					b.t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
