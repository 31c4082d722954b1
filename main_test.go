package fairlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/internal/parts"
	"github.com/fairlock/fairlock/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testTTL    = 10 * time.Second
	testMargin = time.Second
)

// bed is a store that any number of processes use, on fake time.
type bed struct {
	t     *testing.T
	ctx   context.Context
	srv   *memstore.Server
	procs []*proc
}

// proc is one process: a manager with its own clock and connection.
type proc struct {
	*Manager
	b     *bed
	clk   *memstore.Clock
	store *memstore.Client
}

// bubble runs a test. At its end all processes are closed, and the store must be quiet (I8).
func bubble(t *testing.T, f func(*bed)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, ctx: t.Context(), srv: memstore.New(time.Now)}
		// What hangs does not hang on fake time, since every other process goes on working.
		defer time.AfterFunc(time.Hour, func() { panic("test hangs: an hour of fake time has passed") }).Stop()
		defer b.end() // also after a failure: a bubble must not leave goroutines
		f(b)
	})
}

func (b *bed) end() {
	for _, p := range b.procs {
		err := p.closeIn(time.Minute)
		if !b.t.Failed() {
			require.NoError(b.t, err)
			require.Zero(b.t, p.tasks.n)
			require.Empty(b.t, p.lines)
		}
	}
	if !b.t.Failed() {
		require.Empty(b.t, b.srv.Unrest())
	}
}

func (p *proc) closeIn(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return p.Close(ctx)
}

// proc starts a process.
func (b *bed) proc(opt ...func(*Config)) *proc {
	cfg := Config{TTL: testTTL, Margin: testMargin, TicketDelay: 100 * time.Millisecond}
	for _, o := range opt {
		o(&cfg)
	}
	full, err := cfg.withDefaults()
	require.NoError(b.t, err)
	p := &proc{b: b, clk: memstore.NewClock(), store: b.srv.Client()}
	p.Manager = newManager(full, parts.Parts{Clock: p.clk, Queue: p.store.Queue(), Sessions: p.store.Sessions(), Source: p.store.Source()})
	b.procs = append(b.procs, p)
	return p
}

// attempt is a call of Lock or TryLock in a goroutine of its own.
type attempt struct {
	b      *bed
	cancel context.CancelFunc
	done   chan struct{} // closed when the call has returned
	lock   *Lock
	err    error
}

// begin starts a call and waits until nothing moves any more, so that calls are in order.
func (p *proc) begin(name string, opts ...Option) *attempt {
	return p.b.attempt(func(ctx context.Context) (*Lock, error) { return p.Lock(ctx, name, opts...) })
}

func (p *proc) beginTry(name string) *attempt {
	return p.b.attempt(func(ctx context.Context) (*Lock, error) { return p.TryLock(ctx, name) })
}

func (b *bed) attempt(f func(context.Context) (*Lock, error)) *attempt {
	ctx, cancel := context.WithCancel(b.ctx)
	a := &attempt{b: b, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.lock, a.err = f(ctx)
	}()
	synctest.Wait()
	return a
}

// over reports whether the call has returned, once nothing moves any more.
func (a *attempt) over() bool {
	synctest.Wait()
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// longestDoze is how long at most a waiter that does not listen sleeps between two reads, and a little more.
const longestDoze = 1100 * time.Millisecond

// granted requires that the call has got the lock, or gets it without anything else happening.
func (a *attempt) granted() *Lock {
	a.b.t.Helper()
	return a.grantedIn(longestDoze)
}

// grantedIn requires it after at most d.
func (a *attempt) grantedIn(d time.Duration) *Lock {
	a.b.t.Helper()
	select {
	case <-a.done:
	case <-time.After(d):
	}
	require.True(a.b.t, a.over(), "the call has not returned")
	require.NoError(a.b.t, a.err)
	return a.lock
}

// failed requires that the call has failed.
func (a *attempt) failed() error {
	a.b.t.Helper()
	require.True(a.b.t, a.over(), "the call has not returned")
	require.Error(a.b.t, a.err)
	return a.err
}

// lock takes a lock that is free.
func (p *proc) lock(name string, opts ...Option) *Lock {
	p.b.t.Helper()
	return p.begin(name, opts...).granted()
}

// unlock gives a lock back that must be held, and waits until nothing moves any more.
func (b *bed) unlock(l *Lock) {
	b.t.Helper()
	require.NoError(b.t, l.Err())
	require.NoError(b.t, l.Unlock(b.ctx))
	synctest.Wait()
}

// requireLost requires that a lock was lost for a reason.
func (b *bed) requireLost(err error, why LossReason) {
	b.t.Helper()
	var lost *LostError
	require.ErrorIs(b.t, err, ErrLost)
	require.True(b.t, errors.As(err, &lost))
	require.Equal(b.t, why.String(), lost.Reason.String())
}

// doc is the lock's document.
func (b *bed) doc(name string) queue.View {
	b.t.Helper()
	v, found := b.srv.Lock(name)
	require.True(b.t, found)
	return v
}

// requireIdle requires that nobody holds or waits, and no ticket is left, while all processes still run.
func (b *bed) requireIdle(name string) {
	b.t.Helper()
	synctest.Wait()
	v := b.doc(name)
	require.Equal(b.t, v.Issued, v.Settled)
	require.NotNil(b.t, v.IdleSince)
	for _, k := range b.srv.Tickets() {
		require.NotEqual(b.t, name, k.ID.Lock, "a ticket is left")
	}
}
