package conformance

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

var lossCases = []testCase{
	{"Close hands on what is held", closeHandsOn},
	{"Close ends those who wait", closeEndsWaiters},
	{"a closed manager refuses", closedRefuses},
	{"a holder that is killed", killedHolder},
	{"a waiter that is killed", killedWaiter},
	{"a holder that is cut off", cutHolder},
	{"a waiter that is cut off keeps its place", cutWaiter},
	{"a call without the database ends with its context", cutCall},
}

func closeHandsOn(b *bed) {
	p, q := b.process(), b.process()
	l, other := b.lock(p, "x"), b.lock(p, "y")
	next := b.wait(q, "x")
	require.NoError(b.t, p.Close(b.ctx))
	got := next.granted()
	for _, l := range []*fairlock.Lock{l, other} {
		<-l.Context().Done()
		b.requireLost(l.Err(), fairlock.LostClosed)
		require.ErrorIs(b.t, l.Err(), fairlock.ErrClosed)
		b.requireLost(context.Cause(l.Context()), fairlock.LostClosed)
		b.requireLost(l.Unlock(b.ctx), fairlock.LostClosed)
	}
	require.Empty(b.t, p.Session())
	b.unlock(got)
	b.unlock(b.lock(q, "y"))
	require.NoError(b.t, p.Close(b.ctx), "again")
}

func closeEndsWaiters(b *bed) {
	p, q, r := b.process(), b.process(), b.process()
	held := b.lock(p, "x")
	gone, too, next := b.wait(q, "x"), b.wait(q, "x"), b.wait(r, "x")
	require.NoError(b.t, q.Close(b.ctx))
	require.ErrorIs(b.t, gone.failed(), fairlock.ErrClosed)
	require.ErrorIs(b.t, too.failed(), fairlock.ErrClosed)
	b.unlock(held)
	b.unlock(next.granted())
}

func closedRefuses(b *bed) {
	p, looker := b.process(), b.process()
	sem, err := p.Semaphore("s", 2)
	require.NoError(b.t, err)
	rw, err := p.RWLock("r")
	require.NoError(b.t, err)
	el, err := p.Election("e")
	require.NoError(b.t, err)
	require.NoError(b.t, p.Close(b.ctx), "of a manager that was never used")
	for what, f := range map[string]func() error{
		"Lock":       func() error { _, err := p.Lock(b.ctx, "x"); return err },
		"TryLock":    func() error { _, err := p.TryLock(b.ctx, "x"); return err },
		"Do":         func() error { return p.Do(b.ctx, "x", func(context.Context) error { panic("must not run") }) },
		"LockAll":    func() error { _, err := p.LockAll(b.ctx, []string{"x"}); return err },
		"Acquire":    func() error { _, err := sem.Acquire(b.ctx, 1); return err },
		"TryAcquire": func() error { _, err := sem.TryAcquire(b.ctx, 1); return err },
		"RLock":      func() error { _, err := rw.RLock(b.ctx); return err },
		"RW TryLock": func() error { _, err := rw.TryLock(b.ctx); return err },
		"Campaign":   func() error { _, err := el.Campaign(b.ctx, "v"); return err },
	} {
		require.ErrorIs(b.t, f(), fairlock.ErrClosed, what)
	}
	b.untouched(looker)
}

func killedHolder(b *bed) {
	p, q := b.process(short), b.process(short)
	l := b.lock(p, "x")
	next := b.wait(q, "x")
	b.seen(q, "x", l.Token())
	p.Kill()
	got := next.granted()
	require.Greater(b.t, got.Token(), l.Token())
	require.ErrorIs(b.t, l.Err(), fairlock.ErrLost, "what is left of it must not think that it holds")
	_, err := p.Lock(b.ctx, "x")
	require.ErrorIs(b.t, err, fairlock.ErrClosed)
	b.unlock(got)
	require.EqualValues(b.t, 1, q.Stats().SessionsEnded)
}

func killedWaiter(b *bed) {
	p, q, r := b.process(short), b.process(short), b.process(short)
	held := b.lock(p, "x")
	gone := b.wait(q, "x")
	next := b.wait(r, "x")
	b.seen(p, "x", held.Token()+1)
	q.Kill()
	require.ErrorIs(b.t, gone.failed(), fairlock.ErrClosed)
	b.unlock(held)
	b.unlock(next.granted())
}

func cutHolder(b *bed) {
	p, q := b.process(short), b.process(short)
	l := b.lock(p, "x")
	told := make(chan struct{}) // closed when the holder was told
	var cause error
	go func() {
		defer close(told)
		<-l.Context().Done()
		cause = context.Cause(l.Context())
	}()
	next := b.wait(q, "x")
	b.seen(q, "x", l.Token())
	p.Cut()
	got := next.granted()
	// It was told before by its own clock, whatever the timer of its context does.
	b.requireLost(l.Err(), fairlock.LostLease)
	<-told
	b.requireLost(cause, fairlock.LostLease)
	require.Greater(b.t, got.Token(), l.Token())
	p.Heal()
	b.requireLost(l.Unlock(b.ctx), fairlock.LostLease)
	back := b.wait(p, "x")
	b.unlock(got)
	b.unlock(back.granted())
}

func cutWaiter(b *bed) {
	p, q, r := b.process(), b.process(), b.process()
	held := b.lock(p, "x")
	cut := b.wait(q, "x")
	behind := b.wait(r, "x")
	q.Cut()
	q.Heal()
	b.unlock(held)
	b.unlock(cut.granted())
	b.unlock(behind.granted())
}

func cutCall(b *bed) {
	p := b.process(short)
	b.unlock(b.lock(p, "x"))
	p.Cut()
	ctx, cancel := context.WithTimeout(b.ctx, shortTTL)
	defer cancel()
	_, err := p.Lock(ctx, "x")
	require.ErrorIs(b.t, err, context.DeadlineExceeded)
	p.Heal()
	b.unlock(b.lock(p, "x"))
}
