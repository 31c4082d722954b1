package fairlock

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
)

// only is what a witness said of one kind.
func (w *witness) only(prefix string) []string {
	return slices.DeleteFunc(w.lines(), func(s string) bool { return len(s) < len(prefix) || s[:len(prefix)] != prefix })
}

// TestObserverOfAGrantThatCloseTakes: Close ends while a grant is being told of. The lock is lost, and that is told like any other end: a span that was
// begun ends.
func TestObserverOfAGrantThatCloseTakes(t *testing.T) {
	bubble(t, func(b *bed) {
		w := &witness{}
		slow := &Observer{Acquired: func(ctx context.Context, _ Acquired) context.Context {
			time.Sleep(2 * time.Second)
			return ctx
		}}
		p := b.proc(observed(Observers(slow, w.observer())))
		a := p.begin("x")
		time.Sleep(time.Second)
		require.NoError(b.t, p.closeIn(time.Minute))
		require.Empty(b.t, w.only("acquired"))
		l := a.granted()
		b.requireLost(l.Err(), LostClosed)
		synctest.Wait()
		require.Equal(b.t, []string{`ended x closed after 1s, under "wh"`}, w.only("ended"))
		b.requireLost(l.Unlock(b.ctx), LostClosed)
		require.Len(b.t, w.only("ended"), 1)
		require.Zero(b.t, p.Stats().Unobserved)
	})
}

// TestOneOfSeveralObserversPanics: it costs the others nothing, neither what they are told nor what they made of contexts, and each panic is logged.
func TestOneOfSeveralObserversPanics(t *testing.T) {
	bubble(t, func(b *bed) {
		var log bytes.Buffer
		var mu sync.Mutex
		broken := func(who string) *Observer {
			return &Observer{
				Made:      func(*Manager) { panic(who + " made") },
				Closed:    func(*Manager) { panic(who + " closed") },
				Acquiring: func(context.Context, Acquiring) context.Context { panic(who + " acquiring") },
				Acquired:  func(context.Context, Acquired) context.Context { panic(who + " acquired") },
				Ended:     func(context.Context, Ended) { panic(who + " ended") },
			}
		}
		one, two := &witness{}, &witness{}
		all := Observers(broken("first"), one.observer(), broken("second"), two.observer())
		p := b.proc(observed(all), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&lockedBuffer{&mu, &log}, nil)) })
		p.observing.made()
		l := p.lock("x")
		require.Equal(b.t, "wwhh", marks(l.Context()))
		b.unlock(l)
		l = p.lock("y")
		require.NoError(b.t, p.closeIn(time.Second))
		for _, w := range []*witness{one, two} {
			require.Equal(b.t, []string{"made"}, w.only("made"))
			require.Equal(b.t, []string{`ended x unlocked after 0s, under "wwhh"`, `ended y closed after 0s, under "wwhh"`}, w.only("ended"))
			require.Equal(b.t, []string{"closed"}, w.only("closed"))
		}
		b.requireLost(l.Err(), LostClosed)
		mu.Lock()
		defer mu.Unlock()
		for _, who := range []string{"first", "second"} {
			for _, what := range []string{"made", "closed", "acquiring", "acquired", "ended"} {
				require.Contains(b.t, log.String(), `msg="fairlock: observer panicked" error="`+who+" "+what+`"`)
			}
		}
		require.Contains(b.t, log.String(), "observer_trouble_test.go", "the stack is that of the panic")
	})
}

// TestObserverOfTooMuch: a call for more units than there are is a call like others. What it asks the database for is part of it.
func TestObserverOfTooMuch(t *testing.T) {
	bubble(t, func(b *bed) {
		p, w := b.seen()
		s, err := p.Semaphore("s", 2)
		require.NoError(b.t, err)
		_, err = s.Acquire(b.ctx, 3)
		require.ErrorIs(b.t, err, ErrTooBig)
		_, err = s.TryAcquire(b.ctx, 3)
		require.ErrorIs(b.t, err, ErrTooBig)
		over, cancel := context.WithCancel(b.ctx)
		cancel()
		_, err = s.Acquire(over, 3)
		require.ErrorIs(b.t, err, context.Canceled)
		require.Len(b.t, w.only("acquiring s semaphore 3"), 3)
		require.Len(b.t, w.only("acquired s error"), 2)
		require.Len(b.t, w.only("acquired s cancelled"), 1)
	})
}

// TestUsersFunctionEndsTheCall: the function that InLine calls panics, or ends its goroutine. The place in line is given up as if the call had been
// cancelled, its observer hears of it, and nothing is held by nobody.
func TestUsersFunctionEndsTheCall(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("mine") }, "exit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bed) {
				p, w := b.seen()
				held := b.proc().lock("x")
				ended := make(chan any)
				go func() {
					defer close(ended)
					defer func() {
						if r := recover(); r != nil {
							ended <- r
						}
					}()
					_, _ = p.Lock(b.ctx, "x", InLine(end))
				}()
				if r, ok := <-ended; ok {
					require.Equal(b.t, "mine", r)
				}
				require.Zero(b.t, p.Stats().Waiting)
				require.Len(b.t, w.only("acquired x error after 0s"), 1)
				b.unlock(held)
				b.unlock(b.proc().lock("x"))
				require.Zero(b.t, p.Stats().Held)
				require.Empty(b.t, w.only("ended"))
			})
		})
	}
}

// TestObserverOfALockThatWasUndone: what LockAll gives back since it could not have all was not unlocked by anybody, and how long that took is not known.
func TestObserverOfALockThatWasUndone(t *testing.T) {
	bubble(t, func(b *bed) {
		p, w := b.seen()
		held := b.proc().lock("b")
		_, err := p.LockAll(b.ctx, []string{"a", "b"}, MaxWait(time.Second))
		require.ErrorIs(b.t, err, ErrWaitLimit)
		synctest.Wait()
		require.Len(b.t, w.ended, 1)
		require.True(b.t, w.ended[0].Undone)
		b.unlock(held)
		set, err := p.LockAll(b.ctx, []string{"a", "b"})
		require.NoError(b.t, err)
		require.NoError(b.t, set.Unlock(b.ctx))
		require.Len(b.t, w.ended, 3)
		require.False(b.t, w.ended[1].Undone || w.ended[2].Undone)
	})
}

// TestObserverWhileFnPanics: Do's fn panics. Its panic goes on to the caller, and the observer is told of the end.
func TestObserverWhileFnPanics(t *testing.T) {
	bubble(t, func(b *bed) {
		w := &witness{}
		broken := &Observer{Ended: func(context.Context, Ended) { panic("observer") }}
		p := b.proc(observed(Observers(broken, w.observer())))
		require.PanicsWithError(b.t, "fn", func() {
			_ = p.Do(b.ctx, "x", func(context.Context) error { panic(errors.New("fn")) })
		})
		require.Len(b.t, w.only("ended x unlocked"), 1)
	})
}

// TestObserverOfASetWhoseCallerIsGone: InLine's function panics at the second name of LockAll. The first is given back.
func TestObserverOfASetWhoseCallerIsGone(t *testing.T) {
	bubble(t, func(b *bed) {
		p, w := b.seen()
		n := 0
		require.Panics(b.t, func() {
			_, _ = p.LockAll(b.ctx, []string{"a", "b"}, InLine(func() {
				if n++; n == 2 {
					panic("mine")
				}
			}))
		})
		synctest.Wait()
		require.Zero(b.t, p.Stats().Held)
		require.Len(b.t, w.ended, 1)
		require.True(b.t, w.ended[0].Undone)
		for _, name := range []string{"a", "b"} {
			b.unlock(b.proc().lock(name))
		}
	})
}

// TestObserverOfADatabaseThatDoesNotAnswer: TryLock fails by the deadline of a call to the database. That is an error, and no caller's time that is over.
func TestObserverOfADatabaseThatDoesNotAnswer(t *testing.T) {
	bubble(t, func(b *bed) {
		p, w := b.seen()
		b.unlock(p.lock("x")) // with a session
		remove := p.store.Hook(memstore.Before, memstore.OpTry, memstore.Fail(1000, context.DeadlineExceeded))
		_, err := p.TryLock(b.ctx, "x")
		require.ErrorIs(b.t, err, context.DeadlineExceeded)
		remove()
		require.Len(b.t, w.only("acquired x error"), 1)
	})
}

// TestEndedFollowsTheHandOver: Ended of an Unlock is told when the next has the lock, with how long it took to give it, and how long it was held before.
func TestEndedFollowsTheHandOver(t *testing.T) {
	bubble(t, func(b *bed) {
		told := make(chan Ended)
		p := b.proc(observed(&Observer{Ended: func(_ context.Context, e Ended) { told <- e }}))
		l := p.lock("x")
		next := b.proc().begin("x")
		time.Sleep(2 * time.Second)
		remove := p.store.Hook(memstore.Before, memstore.OpSettle, func(context.Context, string) error {
			time.Sleep(3 * time.Second)
			return nil
		})
		go func() { _ = l.Unlock(b.ctx) }()
		other := next.grantedIn(5 * time.Second) // though nobody hears what is told
		e := <-told
		remove()
		require.Equal(b.t, []time.Duration{2 * time.Second, 3 * time.Second}, []time.Duration{e.Held, e.Handed})
		b.unlock(other)
	})
}
