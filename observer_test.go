package fairlock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
)

// witness is what an observer was told, in order. Each function also takes every mutex that a line or the manager has: it would hang where one is held.
type witness struct {
	mu    sync.Mutex // guards all below
	said  []string
	ended []Ended
	got   []Acquired
	reaps []Reaped
	m     *Manager
}

type markKey struct{}

func (w *witness) say(format string, args ...any) {
	w.mu.Lock()
	m := w.m
	w.said = append(w.said, fmt.Sprintf(format, args...))
	w.mu.Unlock()
	if m == nil {
		return
	}
	_ = m.Stats()
	for _, l := range m.allLines() {
		l.mu.Lock()
		for _, r := range l.runs {
			for _, c := range r.claims {
				if c.lock != nil {
					c.lock.mu.Lock()
					_ = c.lock.lost
					c.lock.mu.Unlock()
				}
			}
		}
		l.mu.Unlock()
	}
}

func (w *witness) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}

func (w *witness) count(part string) (n int) {
	for _, s := range w.lines() {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}

// marked adds to the marks that a context has.
func marked(ctx context.Context, s string) context.Context {
	return context.WithValue(ctx, markKey{}, marks(ctx)+s)
}

func marks(ctx context.Context) string {
	s, _ := ctx.Value(markKey{}).(string)
	return s
}

func (w *witness) observer() *Observer {
	return &Observer{
		Made: func(m *Manager) {
			w.mu.Lock()
			w.m = m
			w.mu.Unlock()
			w.say("made")
		},
		Closed: func(*Manager) { w.say("closed") },
		Acquiring: func(ctx context.Context, a Acquiring) context.Context {
			w.say("acquiring %s %s %d try=%v", a.Name, a.Kind, a.Units, a.Try)
			return marked(ctx, "w")
		},
		Acquired: func(ctx context.Context, a Acquired) context.Context {
			w.mu.Lock()
			w.got = append(w.got, a)
			w.mu.Unlock()
			w.say("acquired %s %s after %v, %d ahead, under %q", a.Name, a.Outcome(), a.Waited, a.Ahead, marks(ctx))
			return marked(ctx, "h")
		},
		Ended: func(ctx context.Context, e Ended) {
			w.mu.Lock()
			w.ended = append(w.ended, e)
			w.mu.Unlock()
			w.say("ended %s %s after %v, under %q", e.Name, e.Reason(), e.Held, marks(ctx))
		},
		Renewed:      func(r Renewed) { w.say("renewed %v", r.Err) },
		StreamOpened: func(time.Duration) { w.say("stream opened") },
		StreamFailed: func(f StreamFailed) { w.say("stream failed: %s", f.Reason) },
		Reaped: func(r Reaped) {
			w.mu.Lock()
			w.reaps = append(w.reaps, r)
			w.mu.Unlock()
			w.say("reaped %d %s of %q%q", r.N, r.Kind, r.Lock, r.Session)
		},
	}
}

func observed(o *Observer) func(*Config) { return func(c *Config) { c.Observer = o } }

// seen starts a process with a witness.
func (b *bed) seen(opt ...func(*Config)) (*proc, *witness) {
	w := &witness{}
	p := b.proc(append(opt, observed(w.observer()))...)
	p.observing.made() // as New and Assemble do
	return p, w
}

func TestObserverOfACall(t *testing.T) {
	bubble(t, func(b *bed) {
		p, w := b.seen()
		other := b.proc()
		first := other.lock("x")
		a := p.begin("x")
		time.Sleep(3 * time.Second)
		require.EqualValues(b.t, 1, p.Stats().Waiting)
		b.unlock(first)
		l := a.granted()
		require.Equal(b.t, "wh", marks(l.Context()))
		require.NoError(b.t, l.Context().Err())
		require.EqualValues(b.t, 1, p.Stats().Held)
		require.Zero(b.t, p.Stats().Waiting)
		time.Sleep(2 * time.Second)
		b.unlock(l)
		require.ErrorIs(b.t, l.Err(), ErrUnlocked)
		require.NoError(b.t, l.Unlock(b.ctx), "again: it is told once")
		require.Zero(b.t, p.Stats().Held)
		require.NoError(b.t, p.closeIn(time.Second))
		require.Equal(b.t, []string{
			"made", "acquiring x mutex 1 try=false",
			`acquired x granted after 3s, 1 ahead, under "w"`,
			`ended x unlocked after 2s, under "wh"`,
			"closed",
		}, slices.DeleteFunc(w.lines(), func(s string) bool { return strings.HasPrefix(s, "renewed") || strings.HasPrefix(s, "stream") }))
		require.Equal(b.t, 1, w.count("stream opened"))
		require.Equal(b.t, l.Token(), w.ended[0].Token)
		require.Positive(b.t, w.count("renewed <nil>"))
		require.Zero(b.t, w.count("renewed ")-w.count("renewed <nil>"), "the end of the session is no failure")
	})
}

func TestObserverKindsAndUnits(t *testing.T) {
	bubble(t, func(b *bed) {
		p, w := b.seen()
		s, err := p.Semaphore("s", 8)
		require.NoError(b.t, err)
		rw, err := p.RWLock("rw")
		require.NoError(b.t, err)
		take := func(l *Lock, err error) {
			require.NoError(b.t, err)
			b.unlock(l)
		}
		take(s.Acquire(b.ctx, 3))
		take(rw.RLock(b.ctx))
		take(rw.TryLock(b.ctx))
		require.NoError(b.t, p.Do(b.ctx, "x", func(ctx context.Context) error {
			require.Equal(b.t, "wh", marks(ctx))
			return nil
		}))
		require.Equal(b.t, []string{
			"acquiring s semaphore 3 try=false", "acquiring rw read 1 try=false", "acquiring rw write 1 try=true", "acquiring x mutex 1 try=false",
		}, slices.DeleteFunc(w.lines(), func(s string) bool { return !strings.HasPrefix(s, "acquiring") }))
		_, err = p.Lock(b.ctx, "")
		require.ErrorIs(b.t, err, ErrInvalidName)
		require.Equal(b.t, 4, w.count("acquiring"), "a call that breaks a rule is none")
		for _, e := range w.ended {
			require.Zero(b.t, e.Ahead)
			require.NoError(b.t, e.Err)
		}
		// What the manager locks for itself is nobody's business.
		time.Sleep(3 * testTTL)
		require.Positive(b.t, p.Stats().Sweeps)
		require.Equal(b.t, 4, w.count("acquiring"))
		require.Zero(b.t, p.Stats().Held)
	})
}

func TestObserverOutcomes(t *testing.T) {
	bubble(t, func(b *bed) {
		other := b.proc()
		held := other.lock("x")
		p, w := b.seen(func(c *Config) { c.MaxWaiters = 1 })
		outcome := func() string {
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			a := w.got[len(w.got)-1]
			require.Contains(b.t, Outcomes(), a.Outcome())
			return a.Outcome()
		}
		_, err := p.TryLock(b.ctx, "x")
		require.ErrorIs(b.t, err, ErrBusy)
		require.Equal(b.t, "busy", outcome())

		_, err = p.Lock(b.ctx, "x", MaxWait(time.Second))
		require.ErrorIs(b.t, err, ErrWaitLimit)
		require.Equal(b.t, "timeout", outcome())

		a := p.begin("x")
		_, err = p.Lock(b.ctx, "x")
		require.ErrorIs(b.t, err, ErrTooManyWaiters)
		require.Equal(b.t, "refused", outcome())
		// Its last failure is a timeout of the database's, and that is not why it ends.
		remove := p.store.Hook(memstore.Before, memstore.OpEnqueue, memstore.Fail(1000, context.DeadlineExceeded))
		c := p.begin("y")
		time.Sleep(time.Second)
		c.cancel()
		require.ErrorIs(b.t, c.failed(), context.DeadlineExceeded)
		require.Equal(b.t, "cancelled", outcome())
		remove()
		a.cancel()
		require.ErrorIs(b.t, a.failed(), context.Canceled)
		require.Equal(b.t, "cancelled", outcome())

		ctx, cancel := context.WithTimeout(b.ctx, time.Second)
		defer cancel()
		_, err = p.Lock(ctx, "x")
		require.ErrorIs(b.t, err, context.DeadlineExceeded)
		require.Equal(b.t, "timeout", outcome())

		l := p.lock("z")
		require.Equal(b.t, "granted", outcome())
		_, err = p.Lock(l.Context(), "z")
		require.ErrorIs(b.t, err, ErrReentrant)
		require.Equal(b.t, "error", outcome())
		b.unlock(l)

		// The failure is the database's time, not the caller's.
		mute := p.store.Hook(memstore.Before, memstore.OpTry, memstore.Fail(1000, context.DeadlineExceeded))
		_, err = p.TryLock(b.ctx, "z")
		require.ErrorIs(b.t, err, context.DeadlineExceeded)
		require.ErrorContains(b.t, err, `lock "z" not taken after 9s`)
		require.Equal(b.t, "error", outcome())
		mute()

		a = p.begin("x")
		require.NoError(b.t, p.Close(b.ctx))
		require.ErrorIs(b.t, a.failed(), ErrClosed)
		require.Equal(b.t, "closed", outcome())
		_, err = p.TryLock(b.ctx, "x")
		require.ErrorIs(b.t, err, ErrClosed)
		require.Equal(b.t, "closed", outcome())
		b.unlock(held)
		require.Equal(b.t, w.count("acquiring"), w.count("acquired"))
	})
}

func TestObserverOfALoss(t *testing.T) {
	bubble(t, func(b *bed) {
		p, w := b.seen()
		l := p.lock("x")
		remove := p.store.Hook(memstore.Before, memstore.OpRenew, memstore.Fail(1000, memstore.ErrNoReply))
		time.Sleep(testTTL)
		require.Zero(b.t, p.Stats().Held)
		require.Equal(b.t, []string{`ended x lease after 9s, under "wh"`}, slices.DeleteFunc(w.lines(), func(s string) bool { return !strings.HasPrefix(s, "ended") }))
		require.Positive(b.t, w.count("renewed "+memstore.ErrNoReply.Error()))
		b.requireLost(l.Unlock(b.ctx), LostLease)
		require.Equal(b.t, 1, w.count("ended"), "once")
		b.requireLost(w.ended[0].Err, LostLease)
		remove()
	})
}

// TestObserverOfALossBeforeTheGrantIsTold: each Ended follows its Acquired, whatever happens while that is told.
func TestObserverOfALossBeforeTheGrantIsTold(t *testing.T) {
	bubble(t, func(b *bed) {
		w := &witness{}
		slow := &Observer{Acquired: func(ctx context.Context, _ Acquired) context.Context {
			time.Sleep(2 * time.Second)
			return ctx
		}}
		p := b.proc(observed(Observers(slow, w.observer())))
		l, err := p.Lock(b.ctx, "x", MaxHold(time.Second))
		require.NoError(b.t, err)
		b.requireLost(l.Err(), LostMaxHold)
		synctest.Wait()
		require.Equal(b.t, []string{
			"acquiring x mutex 1 try=false", `acquired x granted after 0s, 0 ahead, under "w"`, `ended x max_hold after 1s, under "wh"`,
		}, w.lines())
		b.requireLost(l.Unlock(b.ctx), LostMaxHold)
		require.Equal(b.t, 1, w.count("ended"))
		require.Zero(b.t, p.Stats().Held)
	})
}

// TestObserverOfALockThatItsCallerNeverGot: LockAll that fails gives back what it has.
func TestObserverOfALockThatItsCallerNeverGot(t *testing.T) {
	bubble(t, func(b *bed) {
		p, w := b.seen()
		other := b.proc()
		held := other.lock("b")
		_, err := p.LockAll(b.ctx, []string{"a", "b"}, MaxWait(time.Second))
		require.ErrorIs(b.t, err, ErrWaitLimit)
		synctest.Wait()
		require.Equal(b.t, 1, w.count(`ended a undone after 1s, under "wh"`))
		require.Equal(b.t, 1, w.count("ended"))
		require.Zero(b.t, p.Stats().Held)
		b.unlock(held)
	})
}

func TestObserverOfClose(t *testing.T) {
	bubble(t, func(b *bed) {
		p, w := b.seen()
		l := p.lock("x")
		waits := b.proc().begin("x")
		require.NoError(b.t, p.closeIn(time.Second))
		lines := w.lines()
		require.Equal(b.t, "closed", lines[len(lines)-1])
		require.Equal(b.t, 1, w.count("ended x closed"))
		b.requireLost(l.Unlock(b.ctx), LostClosed)
		_, err := p.Lock(b.ctx, "x")
		require.ErrorIs(b.t, err, ErrClosed)
		require.Equal(b.t, 1, w.count("acquired x closed"), "calls still tell, by their own goroutine")
		require.NoError(b.t, p.closeIn(time.Second))
		require.Equal(b.t, 1, w.count("closed")-w.count("ended x closed")-w.count("acquired x closed"))
		require.Zero(b.t, p.Stats().Held)
		b.unlock(waits.granted())
	})
}

func TestObserverOfTheDead(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		p.lock("x")
		time.Sleep(time.Second) // with a ticket
		session := p.Session()
		mend := p.crash()
		q, w := b.seen()
		a := q.begin("x")
		l := a.grantedIn(2 * testTTL)
		mend()
		w.mu.Lock()
		require.Equal(b.t, []Reaped{{Kind: "session", N: 1, Session: session}, {Kind: "ticket", N: 1, Lock: "x"}}, w.reaps)
		w.mu.Unlock()
		b.unlock(l)
	})
}

func TestObserverOfStreams(t *testing.T) {
	bubble(t, func(b *bed) {
		p, w := b.seen()
		held := b.proc().lock("x")
		broken := errors.New("broken")
		p.store.Hook(memstore.Before, memstore.OpOpen, memstore.Fail(1, broken))
		a := p.begin("x")
		time.Sleep(5 * time.Second)
		p.store.KillStreams(context.DeadlineExceeded)
		time.Sleep(5 * time.Second)
		b.unlock(held)
		b.unlock(a.granted())
		require.Equal(b.t, 1, w.count("stream failed: error"))
		require.Equal(b.t, 1, w.count("stream failed: timeout"))
		require.Equal(b.t, 2, w.count("stream opened"))
	})
}

// TestSlowObserver: one that does not come back holds nobody up, and what it missed is counted.
func TestSlowObserver(t *testing.T) {
	bubble(t, func(b *bed) {
		stuck, free := make(chan struct{}), make(chan struct{})
		var once sync.Once
		ends := 0
		o := &Observer{
			Renewed: func(Renewed) {
				once.Do(func() { close(stuck) })
				<-free
			},
			Ended: func(context.Context, Ended) { ends++ },
		}
		p := b.proc(observed(o))
		l := p.lock("x")
		<-stuck
		time.Sleep(3 * testTTL)
		require.NoError(b.t, l.Err(), "renewed all the same")
		b.unlock(l)
		require.Equal(b.t, 1, ends, "by the goroutine of Unlock")
		// Losses come faster than they are taken.
		var all []*Lock
		for i := range mostUntold + 10 {
			all = append(all, p.lock(fmt.Sprint(i)))
		}
		p.clk.Sleep(2 * testTTL)
		for _, l := range all {
			b.requireLost(l.Err(), LostLease)
		}
		require.Greater(b.t, p.Stats().Unobserved, int64(9))
		require.LessOrEqual(b.t, p.Stats().Unobserved, int64(40), "the rest is kept")
		require.Zero(b.t, p.Stats().Held)
		began := time.Now()
		require.NoError(b.t, p.closeIn(time.Minute))
		require.Equal(b.t, time.Minute, time.Since(began), "Close waits for it as long as it may, and has given back all")
		close(free)
		<-p.observing.done
		require.Greater(b.t, ends, 1000)
	})
}

func TestPanickingObserver(t *testing.T) {
	bubble(t, func(b *bed) {
		var log bytes.Buffer
		var mu sync.Mutex
		o := &Observer{
			Made:         func(*Manager) { panic("made") },
			Closed:       func(*Manager) { panic("closed") },
			Acquiring:    func(context.Context, Acquiring) context.Context { panic("acquiring") },
			Acquired:     func(context.Context, Acquired) context.Context { panic("acquired") },
			Ended:        func(context.Context, Ended) { panic("ended") },
			Renewed:      func(Renewed) { panic("renewed") },
			StreamOpened: func(time.Duration) { panic("opened") },
		}
		p := b.proc(observed(o), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&lockedBuffer{&mu, &log}, nil)) })
		p.observing.made()
		other := b.proc()
		held := other.lock("x")
		a := p.begin("x")
		time.Sleep(5 * time.Second)
		b.unlock(held)
		l := a.granted()
		require.NoError(b.t, l.Context().Err())
		b.unlock(l)
		l = p.lock("y")
		require.NoError(b.t, p.closeIn(time.Second))
		b.requireLost(l.Err(), LostClosed)
		mu.Lock()
		defer mu.Unlock()
		for _, what := range []string{"made", "closed", "acquiring", "acquired", "ended", "renewed", "opened"} {
			require.Contains(b.t, log.String(), `msg="fairlock: observer panicked" error=`+what)
		}
	})
}

type lockedBuffer struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// TestObserversOfOne: nil contexts, nil functions and nil observers are as if they were not there.
func TestObserversOfOne(t *testing.T) {
	bubble(t, func(b *bed) {
		one, two := &witness{}, &witness{}
		forgets := &Observer{
			Acquiring: func(context.Context, Acquiring) context.Context { return nil },
			Acquired:  func(context.Context, Acquired) context.Context { return nil },
		}
		p := b.proc(observed(Observers(nil, one.observer(), forgets, &Observer{}, two.observer(), forgets)))
		l := p.lock("x")
		require.Equal(b.t, "wwhh", marks(l.Context()))
		b.unlock(l)
		synctest.Wait()
		require.Equal(b.t, 1, one.count(`ended x unlocked after 0s, under "wwhh"`))
		require.Equal(b.t, 1, two.count(`ended x unlocked after 0s, under "wwhh"`))
		require.Equal(b.t, &Observer{}, Observers())
	})
}

func TestLossWords(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for r := LostLease; r.String() != "unknown reason"; r++ {
		require.NotEqual(t, "unknown", r.word(), r.String())
		require.False(t, seen[r.word()])
		seen[r.word()] = true
		require.Equal(t, r.word(), Ended{Err: fmt.Errorf("of a set: %w", &LostError{Reason: r})}.Reason())
	}
	require.Len(t, seen, len(LossReasons()))
	require.Equal(t, "unknown", LossReason(0).word())
	require.Equal(t, "unlocked", Ended{Err: context.Canceled}.Reason())
	for _, err := range []error{ErrTooBig, context.Canceled, context.DeadlineExceeded} {
		require.Equal(t, "error", Acquired{Err: err}.Outcome(), "a deadline of a database call is not the caller's: %v", err)
	}
	require.Equal(t, "closed", Acquired{Err: errors.Join(ErrClosed, context.DeadlineExceeded)}.Outcome())
}

// TestNoObserverNoAllocation: what a pair allocates is the same with no observer and with one that wants to know nothing, but for the
// record of the hold and the two closures.
func TestNoObserverNoAllocation(t *testing.T) {
	pair := func(o *Observer) float64 {
		b := &bed{t: t, ctx: context.Background(), srv: memstore.New(time.Now)}
		p := b.proc(observed(o), func(c *Config) { c.TTL = time.Hour })
		defer func() { require.NoError(t, p.closeIn(time.Minute)) }()
		return testing.AllocsPerRun(1000, func() {
			l, err := p.Lock(b.ctx, "x")
			require.NoError(t, err)
			require.NoError(t, l.Unlock(b.ctx))
		})
	}
	without, with := pair(nil), pair(&Observer{})
	t.Logf("%v allocations without, %v with", without, with)
	require.LessOrEqual(t, with-without, 3.0)
}
