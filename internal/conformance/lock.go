package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

var lockCases = []testCase{
	{"taken and given back", takenAndGivenBack},
	{"tokens grow over processes", tokensGrow},
	{"waits until it is given back", waitsForHolder},
	{"order is that of arrival, over processes", orderOfArrival},
	{"one at a time", oneAtATime},
	{"names are independent", namesAreIndependent},
	{"TryLock of a free lock", tryFree},
	{"TryLock of a held lock", tryHeld},
	{"TryLock overtakes nobody", tryOvertakesNobody},
	{"Do holds while fn runs", doHolds},
	{"Do gives back after a panic", doPanics},
	{"Do ends with its context", doEnds},
	{"MaxWait passes", maxWaitPasses},
	{"a context that had ended", endedContext},
	{"a context that ends during the wait", cancelledWait},
	{"a deadline during the wait", deadlineInLine},
	{"reentry is refused", reentry},
	{"another kind is refused", otherKind},
	{"MaxCalls", maxCalls},
	{"MaxWaiters", maxWaiters},
	{"prefixes are apart", prefixes},
}

func takenAndGivenBack(b *bed) {
	p := b.process()
	require.Empty(b.t, p.Session(), "before the first lock")
	l := b.lock(p, "x")
	require.NotEmpty(b.t, p.Session())
	require.Equal(b.t, "x", l.Name())
	require.Positive(b.t, l.Token())
	require.EqualValues(b.t, 1, l.Units())
	require.NoError(b.t, l.Err())
	require.Positive(b.t, l.Left())
	require.LessOrEqual(b.t, l.Left(), 30*time.Second, "the default TTL")
	require.NoError(b.t, l.Context().Err())

	require.NoError(b.t, l.Unlock(b.ctx))
	require.ErrorIs(b.t, l.Err(), fairlock.ErrUnlocked)
	require.NotErrorIs(b.t, l.Err(), fairlock.ErrLost)
	require.Zero(b.t, l.Left())
	<-l.Context().Done()
	require.ErrorIs(b.t, context.Cause(l.Context()), fairlock.ErrUnlocked)
	require.NoError(b.t, l.Unlock(b.ctx), "again")
	b.unlock(b.lock(p, "x"))
}

func tokensGrow(b *bed) {
	last := int64(0)
	for i, p := range append(b.processes(3), b.processes(3)...) {
		l := b.lock(p, "x")
		require.Greater(b.t, l.Token(), last, i)
		last = l.Token()
		b.unlock(l)
	}
}

func waitsForHolder(b *bed) {
	p, q := b.process(), b.process()
	first := b.lock(p, "x")
	second := b.wait(q, "x")
	second.waits()
	b.unlock(first)
	got := second.granted()
	require.ErrorIs(b.t, first.Err(), fairlock.ErrUnlocked)
	require.Greater(b.t, got.Token(), first.Token())
	b.unlock(got)
}

func orderOfArrival(b *bed) {
	procs := b.processes(3)
	first := b.lock(procs[0], "x")
	var mu sync.Mutex // guards order
	var order []int
	var calls []*call
	for i := range 9 {
		p := procs[(i*2+i/3)%3]
		calls = append(calls, b.begin(p, "x", func(ctx context.Context) (*fairlock.Lock, error) {
			l, err := p.Lock(ctx, "x")
			if err != nil {
				return nil, err
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			return l, l.Unlock(ctx)
		}))
	}
	b.unlock(first)
	last := first.Token()
	for _, c := range calls {
		token := c.granted().Token()
		require.Greater(b.t, token, last)
		last = token
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(b.t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, order)
}

func oneAtATime(b *bed) {
	const callers, rounds = 6, 10
	procs := b.processes(2)
	var mu sync.Mutex // guards the two below
	inside, last := 0, int64(0)
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for range rounds {
				l, err := procs[c%2].Lock(b.ctx, "x")
				if err != nil {
					b.t.Error(err)
					return
				}
				mu.Lock()
				if inside++; inside > 1 || l.Token() <= last {
					b.t.Errorf("%d inside, token %d after %d", inside, l.Token(), last)
				}
				last = l.Token()
				mu.Unlock()
				mu.Lock()
				inside--
				mu.Unlock()
				if err := l.Unlock(b.ctx); err != nil {
					b.t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(b.t, callers*rounds, procs[0].Stats().Grants+procs[1].Stats().Grants)
}

func namesAreIndependent(b *bed) {
	p, q := b.process(), b.process()
	held := b.lock(p, "x")
	// Names are compared byte by byte.
	for _, name := range []string{"X", "x ", "é", "e\u0301", "$a.b", "a/b"} {
		b.unlock(b.lock(q, name))
	}
	b.unlock(held)
}

func tryFree(b *bed) {
	p := b.process()
	l, err := p.TryLock(b.ctx, "x")
	require.NoError(b.t, err)
	require.NoError(b.t, l.Err())
	b.unlock(l)
	again, err := p.TryLock(b.ctx, "x")
	require.NoError(b.t, err)
	require.Greater(b.t, again.Token(), l.Token())
	b.unlock(again)
}

func tryHeld(b *bed) {
	p, q := b.process(), b.process()
	held := b.lock(p, "x")
	for _, m := range []*Process{p, q} {
		l, err := m.TryLock(b.ctx, "x")
		require.ErrorIs(b.t, err, fairlock.ErrBusy)
		require.ErrorContains(b.t, err, `"x"`)
		require.Nil(b.t, l)
	}
	require.Equal(b.t, held.Token(), b.issued(q, "x"), "a refusal takes no number")
	b.unlock(held)
}

func tryOvertakesNobody(b *bed) {
	procs := b.processes(3)
	held := b.lock(procs[0], "x")
	next := b.wait(procs[1], "x")
	for _, p := range procs {
		_, err := p.TryLock(b.ctx, "x")
		require.ErrorIs(b.t, err, fairlock.ErrBusy)
	}
	b.unlock(held)
	b.unlock(next.granted())
	l, err := procs[2].TryLock(b.ctx, "x")
	require.NoError(b.t, err)
	b.unlock(l)
}

func doHolds(b *bed) {
	p, q := b.process(), b.process()
	type key struct{}
	broken := errors.New("broken")
	err := p.Do(context.WithValue(b.ctx, key{}, "v"), "x", func(ctx context.Context) error {
		require.Equal(b.t, "v", ctx.Value(key{}))
		_, err := q.TryLock(b.ctx, "x")
		require.ErrorIs(b.t, err, fairlock.ErrBusy)
		return broken
	})
	require.ErrorIs(b.t, err, broken)
	require.NotErrorIs(b.t, err, fairlock.ErrLost)
	require.NoError(b.t, q.Do(b.ctx, "x", func(context.Context) error { return nil }))
}

func doPanics(b *bed) {
	p := b.process()
	require.PanicsWithValue(b.t, "oh", func() {
		_ = p.Do(b.ctx, "x", func(context.Context) error { panic("oh") })
	})
	l, err := p.TryLock(b.ctx, "x")
	require.NoError(b.t, err)
	b.unlock(l)
}

func doEnds(b *bed) {
	p := b.process()
	ctx, cancel := context.WithCancel(b.ctx)
	err := p.Do(ctx, "x", func(held context.Context) error {
		cancel()
		<-held.Done()
		return context.Cause(held)
	})
	require.ErrorIs(b.t, err, context.Canceled)
	err = p.Do(ctx, "x", func(context.Context) error { panic("must not run") })
	require.ErrorIs(b.t, err, context.Canceled)
}

func maxWaitPasses(b *bed) {
	p, q := b.process(), b.process()
	held := b.lock(p, "x")
	_, err := q.Lock(b.ctx, "x", fairlock.MaxWait(20*time.Millisecond))
	require.ErrorIs(b.t, err, fairlock.ErrWaitLimit)
	require.NotErrorIs(b.t, err, context.DeadlineExceeded)
	require.ErrorContains(b.t, err, `"x"`)
	behind := b.wait(q, "x")
	b.unlock(held)
	b.unlock(behind.granted())
	b.unlock(b.lock(q, "x", fairlock.MaxWait(limit)))
}

func endedContext(b *bed) {
	p := b.process()
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	sem, err := p.Semaphore("s", 2)
	require.NoError(b.t, err)
	rw, err := p.RWLock("r")
	require.NoError(b.t, err)
	el, err := p.Election("e")
	require.NoError(b.t, err)
	for what, f := range map[string]func() error{
		"Lock":       func() error { _, err := p.Lock(ctx, "x"); return err },
		"TryLock":    func() error { _, err := p.TryLock(ctx, "x"); return err },
		"Do":         func() error { return p.Do(ctx, "x", func(context.Context) error { panic("must not run") }) },
		"Acquire":    func() error { _, err := sem.Acquire(ctx, 1); return err },
		"TryAcquire": func() error { _, err := sem.TryAcquire(ctx, 1); return err },
		"RW Lock":    func() error { _, err := rw.Lock(ctx); return err },
		"RLock":      func() error { _, err := rw.RLock(ctx); return err },
		"TryRLock":   func() error { _, err := rw.TryRLock(ctx); return err },
		"LockAll":    func() error { _, err := p.LockAll(ctx, []string{"a", "b"}); return err },
		"Campaign":   func() error { _, err := el.Campaign(ctx, "v"); return err },
		"Leader":     func() error { _, err := el.Leader(ctx); return err },
		"Inspect":    func() error { _, err := p.Inspect(ctx, "x"); return err },
		"List":       func() error { _, err := p.List(ctx); return err },
	} {
		require.ErrorIs(b.t, f(), context.Canceled, what)
	}
	b.untouched(p)
}

func cancelledWait(b *bed) {
	p, q, r := b.process(), b.process(), b.process()
	held := b.lock(p, "x")
	gone := b.wait(q, "x")
	next := b.wait(r, "x")
	gone.cancel()
	err := gone.failed()
	require.ErrorIs(b.t, err, context.Canceled)
	require.NotErrorIs(b.t, err, fairlock.ErrWaitLimit)
	b.unlock(held)
	b.unlock(next.granted())
}

func deadlineInLine(b *bed) {
	p, q := b.process(), b.process()
	held := b.lock(p, "x")
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Millisecond)
	defer cancel()
	_, err := q.Lock(ctx, "x")
	require.ErrorIs(b.t, err, context.DeadlineExceeded)
	require.NotErrorIs(b.t, err, fairlock.ErrWaitLimit)
	b.unlock(held)
}

func reentry(b *bed) {
	p := b.process()
	held := b.lock(p, "x")
	_, err := p.Lock(held.Context(), "x")
	require.ErrorIs(b.t, err, fairlock.ErrReentrant)
	require.ErrorContains(b.t, err, fmt.Sprintf(`"x", token %d`, held.Token()))
	_, err = p.TryLock(held.Context(), "x")
	require.ErrorIs(b.t, err, fairlock.ErrBusy)
	err = p.Do(held.Context(), "y", func(ctx context.Context) error {
		_, err := p.Lock(ctx, "x")
		require.ErrorIs(b.t, err, fairlock.ErrReentrant)
		return p.Do(ctx, "y", func(context.Context) error { panic("must not run") })
	})
	require.ErrorIs(b.t, err, fairlock.ErrReentrant)
	_, err = p.LockAll(held.Context(), []string{"a", "x"})
	require.ErrorIs(b.t, err, fairlock.ErrReentrant)
	require.Equal(b.t, held.Token(), b.issued(p, "x"))
	under := held.Context()
	b.unlock(held)
	// That context has ended.
	_, err = p.Lock(under, "x")
	require.ErrorIs(b.t, err, context.Canceled)
	b.unlock(b.lock(p, "x"))
}

func otherKind(b *bed) {
	p, q := b.process(), b.process()
	held := b.lock(p, "x")
	for _, m := range []*Process{p, q} {
		sem, err := m.Semaphore("x", 3)
		require.NoError(b.t, err)
		rw, err := m.RWLock("x")
		require.NoError(b.t, err)
		for what, f := range map[string]func() (*fairlock.Lock, error){
			"Acquire":    func() (*fairlock.Lock, error) { return sem.Acquire(b.ctx, 1) },
			"TryAcquire": func() (*fairlock.Lock, error) { return sem.TryAcquire(b.ctx, 1) },
			"RLock":      func() (*fairlock.Lock, error) { return rw.RLock(b.ctx) },
			"TryLock":    func() (*fairlock.Lock, error) { return rw.TryLock(b.ctx) },
		} {
			l, err := f()
			require.ErrorIs(b.t, err, fairlock.ErrMismatch, what)
			require.ErrorContains(b.t, err, `"x"`, what)
			require.ErrorContains(b.t, err, "mutex", what)
			require.Nil(b.t, l, what)
		}
	}
	require.Equal(b.t, held.Token(), b.issued(q, "x"), "no number was taken")
	b.unlock(held)

	sem, err := p.Semaphore("s", 3)
	require.NoError(b.t, err)
	l, err := sem.Acquire(b.ctx, 1)
	require.NoError(b.t, err)
	other, err := q.Semaphore("s", 4)
	require.NoError(b.t, err)
	_, err = other.Acquire(b.ctx, 1)
	require.ErrorIs(b.t, err, fairlock.ErrMismatch)
	require.ErrorContains(b.t, err, "3")
	require.ErrorContains(b.t, err, "4")
	_, err = q.Lock(b.ctx, "s")
	require.ErrorIs(b.t, err, fairlock.ErrMismatch)
	require.Equal(b.t, l.Token(), b.issued(q, "s"))
	b.unlock(l)
}

func maxCalls(b *bed) {
	p := b.process(func(c *fairlock.Config) { c.MaxCalls = 1 })
	q := b.process()
	held := b.lock(q, "x")
	waiting := b.wait(p, "x")
	_, err := p.Lock(b.ctx, "y")
	require.ErrorIs(b.t, err, fairlock.ErrTooManyWaiters)
	require.Zero(b.t, b.issued(q, "y"))
	b.unlock(held)
	b.unlock(waiting.granted())
}

func maxWaiters(b *bed) {
	p := b.process(func(c *fairlock.Config) { c.MaxWaiters = 1 })
	q := b.process()
	held := b.lock(q, "x")
	waiting := b.wait(p, "x")
	_, err := p.Lock(b.ctx, "x")
	require.ErrorIs(b.t, err, fairlock.ErrTooManyWaiters)
	require.ErrorContains(b.t, err, `"x"`)
	require.Equal(b.t, held.Token()+1, b.issued(q, "x"), "no number was taken")
	b.unlock(held)
	b.unlock(waiting.granted())
	b.unlock(b.lock(p, "x"))
}

func prefixes(b *bed) {
	p := b.process()
	q := b.process(func(c *fairlock.Config) { c.Prefix = "other." })
	here, there := b.lock(p, "x"), b.lock(q, "x")
	b.unlock(here)
	b.unlock(there)
}
