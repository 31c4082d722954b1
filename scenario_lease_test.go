package fairlock

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock/internal/memstore"
)

// TestScenarioReleaseDuringRenewal: a renewal is on its way, and takes effect before, or only after, the lock has been given back or the
// process closed. It brings nothing back to life.
func TestScenarioReleaseDuringRenewal(t *testing.T) {
	for at, when := range map[memstore.Point]string{memstore.Before: "late", memstore.After: "early"} {
		t.Run(when, func(t *testing.T) {
			bubble(t, func(b *bed) {
				p, other := b.proc(), b.proc()
				l := p.lock("x")
				next := other.begin("x")
				gate := memstore.NewGate()
				remove := p.store.Hook(at, memstore.OpRenew, gate.Pass)
				<-gate.Reached()
				b.unlock(l)
				held := next.granted()
				gate.Open()
				remove()
				synctest.Wait()
				require.ErrorIs(b.t, p.beginTry("x").failed(), ErrBusy)
				time.Sleep(2 * testTTL)
				require.NoError(b.t, held.Err())
				require.ErrorIs(b.t, l.Err(), ErrUnlocked)
				b.unlock(held)
				b.requireIdle("x")

				l = p.lock("y")
				session := p.Session()
				gate = memstore.NewGate()
				p.store.Hook(at, memstore.OpRenew, gate.Pass)
				<-gate.Reached()
				closed := make(chan error, 1)
				go func() { closed <- p.closeIn(time.Minute) }()
				synctest.Wait()
				gate.Open()
				require.NoError(b.t, <-closed)
				b.requireLost(l.Err(), LostClosed)
				_, found := b.srv.Session(session)
				require.False(b.t, found, "a renewal is no upsert, and nothing comes after the end")
			})
		})
	}
}

// TestScenarioOneRenewer: a hundred first calls at one time begin one session, with one renewer, whatever is held.
func TestScenarioOneRenewer(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		var wg sync.WaitGroup
		locks := make([]*Lock, 100)
		for i := range locks {
			wg.Go(func() {
				var err error
				locks[i], err = p.Lock(b.ctx, fmt.Sprint(i))
				require.NoError(b.t, err)
			})
		}
		wg.Wait()
		require.Equal(b.t, 1, p.store.Calls(memstore.OpBeginSession))
		time.Sleep(6 * testTTL)
		require.InDelta(b.t, 18, p.store.Calls(memstore.OpRenew), 1)
		for _, l := range locks {
			b.unlock(l)
		}
		before := p.store.Calls(memstore.OpRenew)
		time.Sleep(testTTL)
		require.InDelta(b.t, before+3, p.store.Calls(memstore.OpRenew), 1, "nor does it follow the locks")
	})
}

// TestScenarioRenewalOutlivesTheCall: the lease has nothing to do with the context of the call that began it.
func TestScenarioRenewalOutlivesTheCall(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		ctx, cancel := context.WithCancel(b.ctx)
		l, err := p.Lock(ctx, "x")
		require.NoError(b.t, err)
		cancel()
		time.Sleep(10 * testTTL)
		b.unlock(l)
	})
}

// TestScenarioServerClockJumps: the clock of the server is an hour ahead, an hour behind, and back, as it is when primaries with
// different clocks follow each other. Nobody who lives loses anything, and the dead are cleared when they should.
func TestScenarioServerClockJumps(t *testing.T) {
	bubble(t, func(b *bed) {
		var off atomic.Int64
		b.srv = memstore.New(func() time.Time { return time.Now().Add(time.Duration(off.Load())) })
		p, q, dead := b.proc(), b.proc(), b.proc()
		l := p.lock("x")
		behind := q.begin("x")
		for _, jump := range []time.Duration{time.Hour, -time.Hour, 45 * time.Second, -45 * time.Second, 0} {
			off.Store(int64(jump))
			time.Sleep(testTTL * 5 / 2)
			require.NoError(b.t, l.Err())
			require.False(b.t, behind.over())
		}
		off.Store(int64(-time.Hour))
		time.Sleep(testTTL / 2) // a renewal by that clock
		gone := dead.lock("y")
		next := q.begin("y")
		time.Sleep(testTTL)
		mend := dead.crash()
		off.Store(int64(time.Hour))
		got := next.grantedIn(testTTL + testTTL/5)
		require.ErrorIs(b.t, gone.Err(), ErrLost, "its holder was told before")
		b.unlock(got)
		b.unlock(l)
		l = behind.granted()
		require.Equal(b.t, b.doc("x").Issued, l.Token(), "the place that it had")
		b.unlock(l)
		require.Zero(b.t, p.Stats().Lost+q.Stats().Lost+q.Stats().Requeued)
		mend()
		time.Sleep(testTTL)
	})
}

// TestScenarioServerClockGoesBack: a holder dies, and at once the server's clock is set back, so that by that clock the dead one's lease lasts
// longer than any lease can. The next in line waits one more lease at most, not until the clock has caught up.
func TestScenarioServerClockGoesBack(t *testing.T) {
	for _, back := range []time.Duration{time.Second, testTTL, 45 * time.Second, time.Hour} {
		t.Run(back.String(), func(t *testing.T) {
			bubble(t, func(b *bed) {
				var off atomic.Int64
				b.srv = memstore.New(func() time.Time { return time.Now().Add(-time.Duration(off.Load())) })
				dead, p := b.proc(), b.proc()
				held := dead.lock("x")
				next := p.begin("x")
				time.Sleep(time.Second)
				mend := dead.crash()
				off.Store(int64(back))
				l := next.grantedIn(2*testTTL + 2*testTTL/10)
				require.ErrorIs(b.t, held.Err(), ErrLost)
				b.unlock(l)
				mend()
				time.Sleep(testTTL)
			})
		})
	}
}

// TestScenarioNoClockOfOurOwn: no clock of a client decides anything. Package time's Now is read for a message, for people and in
// package internal/clock, which is what trust is judged by and does not follow the wall clock back; all times in documents that
// are compared are the server's.
func TestScenarioNoClockOfOurOwn(t *testing.T) {
	t.Parallel()
	allowed := map[string]string{
		"acquire.go":       "how long a call waited, for its error",
		"queue/tickets.go": "when a tombstone was written, for people",
	}
	for _, dir := range []string{".", "queue", "waiter", "reaper"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			src, err := os.ReadFile(name)
			require.NoError(t, err)
			f, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
			require.NoError(t, err)
			ast.Inspect(f, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" {
					if sel.Sel.Name == "Now" || sel.Sel.Name == "Since" || sel.Sel.Name == "Until" {
						require.Contains(t, allowed, name, "time.%s", sel.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// TestScenarioExtendOfAnExpiredLease fails, though nobody else has the lock or wants it.
func TestScenarioExtendOfAnExpiredLease(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		l := p.lock("x", MaxHold(time.Hour))
		p.clk.Sleep(testTTL)
		b.requireLost(l.Extend(time.Hour), LostLease)
		b.requireLost(l.Err(), LostLease)
		time.Sleep(testTTL)
		b.requireLost(l.Extend(time.Hour), LostLease)
		b.requireLost(l.Unlock(b.ctx), LostLease)
		b.unlock(p.lock("x"))
	})
}

// TestScenarioRepeatedReleaseSparesTheNext: the reply of a release is lost, the same process takes the lock again, and then the release
// is repeated. It is about its own number and no other.
func TestScenarioRepeatedReleaseSparesTheNext(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		first := p.lock("x")
		p.store.Hook(memstore.After, memstore.OpSettle, memstore.Fail(1, memstore.ErrNoReply))
		unlocked := make(chan error, 1)
		go func() { unlocked <- first.Unlock(b.ctx) }()
		synctest.Wait()
		second := p.lock("x")
		require.Empty(b.t, unlocked, "not repeated yet")
		require.NoError(b.t, <-unlocked)
		require.NoError(b.t, first.Unlock(b.ctx))
		time.Sleep(2 * testTTL) // audits
		require.NoError(b.t, second.Err())
		require.ErrorIs(b.t, b.proc().beginTry("x").failed(), ErrBusy)
		b.unlock(second)
		b.requireIdle("x")
	})
}

// TestScenarioNilMeansHeld: the context ends in the moment of the grant. Lock returns a lock that is held, or an error and nothing.
func TestScenarioNilMeansHeld(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		got := 0
		for i := range 300 {
			held := other.lock("x")
			ctx, cancel := context.WithCancel(b.ctx)
			a := b.attempt(func(context.Context) (*Lock, error) { return p.Lock(ctx, "x") })
			gate := memstore.NewGate()
			remove := p.store.Hook(memstore.After, memstore.OpNext, gate.Pass)
			require.NoError(b.t, held.Unlock(b.ctx))
			synctest.Wait()
			remove()
			if i%2 == 0 { // both at one time, in either order
				go cancel()
				go gate.Open()
			} else {
				go gate.Open()
				go cancel()
			}
			<-a.done
			if a.err != nil {
				require.ErrorIs(b.t, a.err, context.Canceled)
				require.Nil(b.t, a.lock)
			} else {
				got++
				require.NoError(b.t, a.lock.Err())
				require.ErrorIs(b.t, other.beginTry("x").failed(), ErrBusy)
				b.unlock(a.lock)
			}
			cancel()
			synctest.Wait()
		}
		b.t.Logf("%d of 300 were granted", got)
		b.requireIdle("x")
	})
}

// TestScenarioUnlockOfALostLockReturnsAtOnce: the database is gone, and Unlock knows all that there is to say.
func TestScenarioUnlockOfALostLockReturnsAtOnce(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		l := p.lock("x")
		mend := p.crash()
		time.Sleep(testTTL)
		b.requireLost(l.Err(), LostLease)
		began := time.Now()
		for range 3 {
			b.requireLost(l.Unlock(b.ctx), LostLease)
		}
		require.Zero(b.t, time.Since(began))
		mend()
		time.Sleep(testTTL)
	})
}

// TestScenarioFailedCallsLeaveNothing: every way in which Lock and TryLock can fail. One session is left, and it is the manager's.
func TestScenarioFailedCallsLeaveNothing(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		b.unlock(p.lock("warm up"))
		session := p.Session()
		held := other.lock("held")
		pool := other.beginUnits("pool", pool, 1).granted()
		ended, cancel := context.WithCancel(b.ctx)
		cancel()
		refuse := mongo.CommandError{Code: 13, Name: "Unauthorized"}
		for range 20 {
			for want, call := range map[error]func() error{
				ErrInvalidName:           func() error { _, err := p.Lock(b.ctx, ""); return err },
				ErrInvalidOption:         func() error { _, err := p.Lock(b.ctx, "x", MaxWait(-1)); return err },
				context.Canceled:         func() error { _, err := p.Lock(ended, "x"); return err },
				ErrWaitLimit:             func() error { _, err := p.Lock(b.ctx, "held", MaxWait(1)); return err },
				ErrBusy:                  func() error { _, err := p.TryLock(b.ctx, "held"); return err },
				ErrMismatch:              func() error { _, err := p.Lock(b.ctx, "pool"); return err },
				context.DeadlineExceeded: func() error { return lockFor(b.ctx, p, "held", 50*time.Millisecond) },
			} {
				require.ErrorIs(b.t, call(), want)
			}
			for _, op := range []memstore.Op{memstore.OpEnqueue, memstore.OpTry} {
				remove := p.store.Hook(memstore.Before, op, memstore.Fail(1, refuse))
				a := p.begin("x")
				if op == memstore.OpTry {
					b.unlock(a.granted())
					a = p.beginTry("x")
				}
				require.ErrorContains(b.t, a.failed(), "Unauthorized")
				remove()
			}
		}
		time.Sleep(time.Second)
		require.Equal(b.t, session, p.Session())
		require.Equal(b.t, 1, p.store.Calls(memstore.OpBeginSession))
		require.Empty(b.t, p.names())
		require.Empty(b.t, p.tickets.standing())
		b.unlock(held)
		b.unlock(pool)
		b.requireIdle("held")
		b.requireIdle("x")
	})
}

func lockFor(ctx context.Context, p *proc, name string, d time.Duration) error {
	short, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	_, err := p.Lock(short, name)
	return err
}
