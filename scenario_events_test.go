package fairlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/waiter"
)

// TestScenarioRandomEventLoss: each event comes once, twice or never, for each process by itself. Everybody is served in order, and what
// a lost event costs is a re-check.
func TestScenarioRandomEventLoss(t *testing.T) {
	bubble(t, func(b *bed) {
		rng := rand.New(rand.NewPCG(1, 4))
		var mu sync.Mutex // guards all of the test's
		var last int64
		grants := 0
		var wg sync.WaitGroup
		for range 5 {
			p := b.proc()
			p.store.Deliver(func(waiter.Event) int {
				mu.Lock()
				defer mu.Unlock()
				return rng.IntN(3)
			})
			for range 2 {
				wg.Go(func() {
					for range 20 {
						l, err := p.Lock(b.ctx, "x")
						if err != nil {
							b.t.Error(err)
							return
						}
						mu.Lock()
						if l.Token() <= last {
							b.t.Errorf("token %d after %d", l.Token(), last)
						}
						last = l.Token()
						grants++
						mu.Unlock()
						time.Sleep(120 * time.Millisecond) // so slow a queue is listened to
						if err := l.Unlock(b.ctx); err != nil {
							b.t.Error(err)
						}
					}
				})
			}
		}
		began := time.Now()
		wg.Wait()
		require.Equal(b.t, 5*2*20, grants)
		require.Less(b.t, time.Since(began), 200*(120*time.Millisecond+2500*time.Millisecond))
		b.requireIdle("x")
	})
}

// outage ends the process's streams and answers its calls of op with no primary, until mend.
func (p *proc) outage(op memstore.Op) (mend func()) {
	noPrimary := errors.New("server selection error: no primary")
	mend = p.store.Hook(memstore.Before, op, memstore.Fail(1_000_000, noPrimary))
	p.store.KillStreams(noPrimary)
	return mend
}

// TestScenarioNoPrimaryForAMinute: no call is answered for a minute, which is six leases. Calls of Lock do not fail, holders are told in
// time, and when there is a primary again all are served within seconds, in their order: nobody takes the others for dead because nobody
// could renew.
func TestScenarioNoPrimaryForAMinute(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q, fresh := b.proc(), b.proc(), b.proc()
		held := p.lock("x")
		second, third := q.begin("x"), p.begin("x")
		time.Sleep(time.Second)
		var back []func()
		for _, p := range b.procs {
			back = append(back, p.outage(memstore.OpAny))
		}
		late := fresh.begin("x")
		time.Sleep(testTTL - testMargin)
		b.requireLost(held.Err(), LostLease)
		time.Sleep(time.Minute)
		for _, a := range []*attempt{second, third, late} {
			require.False(b.t, a.over())
		}
		for _, mend := range back {
			mend()
		}
		began := time.Now()
		for calls := []*attempt{second, third, late}; len(calls) > 0; time.Sleep(10 * time.Millisecond) {
			require.Less(b.t, time.Since(began), 15*time.Second)
			calls = slices.DeleteFunc(calls, func(a *attempt) bool {
				if !a.over() {
					return false
				}
				require.NoError(b.t, a.err)
				require.NoError(b.t, a.lock.Unlock(b.ctx))
				return true
			})
		}
		require.Zero(b.t, p.Stats().Requeued+q.Stats().Requeued)
		require.Zero(b.t, p.Stats().SessionsEnded+q.Stats().SessionsEnded+fresh.Stats().SessionsEnded)
		require.Equal(b.t, []int64{held.Token() + 1, held.Token() + 2}, []int64{second.lock.Token(), third.lock.Token()})
		b.requireLost(held.Unlock(b.ctx), LostLease)
		time.Sleep(time.Second)
		b.requireIdle("x")
	})
}

// TestScenarioOutageOfNearlyALease: an outage ends before q's lease does, and after that of p, who had renewed earlier. q comes back first, and
// does not end p for what nobody could do: neither while it cannot renew its own lease, nor when it just has.
func TestScenarioOutageOfNearlyALease(t *testing.T) {
	for _, last := range []memstore.Op{memstore.OpRenew, memstore.OpGetSessions} {
		t.Run(string(last), func(t *testing.T) {
			bubble(t, func(b *bed) {
				const third, apart, soon = testTTL / 3, 100 * time.Millisecond, 15 * time.Second
				p, q := b.proc(func(c *Config) { c.TicketDelay = time.Millisecond }), b.proc()
				own := q.lock("own") // begins q's session
				time.Sleep(apart)
				held := p.lock("x") // begins p's
				next, behind := q.begin("x"), p.begin("x")
				time.Sleep(third - apart/2) // q has renewed, and p has not
				mendP, mendQ, mendLast := p.outage(memstore.OpAny), q.outage(memstore.OpAny), q.outage(last)
				time.Sleep(testTTL + testTTL/8 - third) // a look of q saw p's beat within a tenth
				b.requireLost(held.Err(), LostLease)
				require.NoError(b.t, own.Err())
				mendQ()
				time.Sleep(testTTL / 10) // it looks, or renews
				mendLast()
				time.Sleep(testTTL / 5)
				require.Zero(b.t, q.Stats().SessionsEnded)
				mendP()
				b.requireLost(held.Unlock(b.ctx), LostLease)
				b.unlock(next.grantedIn(soon))
				l := behind.grantedIn(soon)
				require.Equal(b.t, held.Token()+2, l.Token(), "its place is kept")
				b.unlock(l)
				_ = own.Unlock(b.ctx) // lost, if renewals came last
				require.Zero(b.t, p.Stats().Requeued+q.Stats().Requeued+q.Stats().SessionsEnded)
			})
		})
	}
}

// serverErrors are what reports tell of, with what is done about each where a call of Lock meets it, before or after it took effect:
// refused says that it ends the call, since repeating it cannot help; all others are repeated, and settled by what the repeat finds. Where a stream meets one, the
// next stream is opened afresh, whatever it is.
var serverErrors = []struct {
	name    string
	err     error
	refused bool
}{
	{"NetworkError", mongo.CommandError{Code: 6, Name: "HostUnreachable", Labels: []string{"NetworkError"}}, false},
	{"server selection", errors.New("server selection error: context deadline exceeded"), false},
	{"pool cleared", errors.New("connection pool was cleared"), false},
	{"Unauthorized", mongo.CommandError{Code: 13, Name: "Unauthorized"}, true},
	{"AuthenticationFailed", mongo.CommandError{Code: 18, Name: "AuthenticationFailed"}, false},
	{"CursorNotFound", mongo.CommandError{Code: 43, Name: "CursorNotFound", Labels: []string{"ResumableChangeStreamError"}}, false},
	{"MaxTimeMSExpired", mongo.CommandError{Code: 50, Name: "MaxTimeMSExpired"}, false},
	{"ShutdownInProgress", mongo.CommandError{Code: 91, Name: "ShutdownInProgress"}, false},
	{"WriteConflict", mongo.CommandError{Code: 112, Name: "WriteConflict"}, false},
	{"DocumentValidationFailure", mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 121}}}, true},
	{"CappedPositionLost", mongo.CommandError{Code: 136, Name: "CappedPositionLost"}, true},
	{"PrimarySteppedDown", mongo.CommandError{Code: 189, Name: "PrimarySteppedDown"}, false},
	{"CursorKilled", mongo.CommandError{Code: 237, Name: "CursorKilled"}, false},
	{"InvalidResumeToken", mongo.CommandError{Code: 260, Name: "InvalidResumeToken", Labels: []string{"NonResumableChangeStreamError"}}, true},
	{"ChangeStreamFatalError", mongo.CommandError{Code: 280, Name: "ChangeStreamFatalError", Labels: []string{"NonResumableChangeStreamError"}}, true},
	{"ChangeStreamHistoryLost", mongo.CommandError{Code: 286, Name: "ChangeStreamHistoryLost", Labels: []string{"NonResumableChangeStreamError"}}, true},
	{"NotWritablePrimary", mongo.CommandError{Code: 10107, Name: "NotWritablePrimary", Labels: []string{"RetryableWriteError"}}, false},
	{"BSONObjectTooLarge", mongo.CommandError{Code: 10334, Name: "BSONObjectTooLarge"}, true},
	{"InterruptedDueToReplStateChange", mongo.CommandError{Code: 11602, Name: "InterruptedDueToReplStateChange"}, false},
	{"waiting for replication timed out", mongo.WriteException{
		WriteConcernError: &mongo.WriteConcernError{Code: 64, Message: "waiting for replication timed out"},
	}, false},
	{"invalidate", memstore.ErrInvalidated, false},
}

// TestScenarioErrorsOfCalls: the table, for the calls of Lock and Unlock.
func TestScenarioErrorsOfCalls(t *testing.T) {
	for _, e := range serverErrors {
		t.Run(e.name, func(t *testing.T) {
			bubble(t, func(b *bed) {
				p := b.proc()
				b.unlock(p.lock("warm up"))
				for _, at := range []memstore.Point{memstore.Before, memstore.After} {
					before := p.store.Calls(memstore.OpEnqueue)
					if e.refused {
						if at == memstore.After {
							continue // who refuses does nothing
						}
						p.store.Hook(at, memstore.OpEnqueue, memstore.Fail(1, e.err))
						require.ErrorContains(b.t, p.begin("x").failed(), e.err.Error())
						require.Equal(b.t, before+1, p.store.Calls(memstore.OpEnqueue))
						b.unlock(p.lock("x"))
						continue
					}
					p.store.Hook(at, memstore.OpEnqueue, memstore.Fail(1, e.err))
					p.store.Hook(at, memstore.OpSettle, memstore.Fail(1, e.err))
					l := p.begin("x").grantedIn(time.Second)
					require.Equal(b.t, before+2, p.store.Calls(memstore.OpEnqueue))
					require.Equal(b.t, l.Token(), b.doc("x").Issued, "one number")
					b.unlock(l) // nil: it is known in the end
					b.requireIdle("x")
				}
			})
		})
	}
}

// TestScenarioErrorsOfStreams: the same table, for an open change stream. The news that was lost with it comes with the next, which
// is opened afresh: there is no token to be kept, or to be wrong.
func TestScenarioErrorsOfStreams(t *testing.T) {
	for _, e := range serverErrors {
		t.Run(e.name, func(t *testing.T) {
			bubble(t, func(b *bed) {
				p, other := b.proc(), b.proc()
				held := other.lock("x")
				a := p.begin("x")
				time.Sleep(time.Second)
				require.True(b.t, p.Stats().Streaming)
				p.store.Deliver(func(waiter.Event) int { return 0 })
				b.unlock(held)
				require.False(b.t, a.over())
				p.store.KillStreams(e.err)
				b.unlock(a.grantedIn(time.Millisecond))
				s := p.Stats()
				require.EqualValues(b.t, []int64{2, 1, 1}, []int64{s.StreamsOpened, s.StreamsFailed, s.GrantsByOpening})
			})
		})
	}
}

// TestScenarioOwnEvents: a process hears of what it did itself, and does nothing about it.
func TestScenarioOwnEvents(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		yHeld := other.lock("y")
		y := p.begin("y") // keeps the stream of p open
		for range 10 {
			x := p.lock("x")
			next := other.begin("x")
			again := p.begin("x")
			time.Sleep(time.Second)
			events := p.Stats().Events
			b.unlock(x)
			time.Sleep(time.Second)
			require.Greater(b.t, p.Stats().Events, events, "it heard of its own")
			require.False(b.t, again.over())
			b.unlock(next.granted())
			b.unlock(again.granted())
		}
		s := p.Stats()
		require.Zero(b.t, s.Lost+s.Requeued+s.GrantsByRecheck+s.StreamsFailed)
		b.unlock(yHeld)
		b.unlock(y.granted())
		require.EqualValues(b.t, 1, p.Stats().StreamsOpened)
	})
}

// TestScenarioWaitEndsInEachStateOfTheStream: the stream of a process that waits is ended in each of its states by the end of the wait. Close
// does not wait for an event, and nothing of it is left at the server.
func TestScenarioWaitEndsInEachStateOfTheStream(t *testing.T) {
	for _, op := range []memstore.Op{memstore.OpBegin, memstore.OpOpen, memstore.OpOpeningViews, memstore.OpNext} {
		t.Run(string(op), func(t *testing.T) {
			bubble(t, func(b *bed) {
				p, other := b.proc(), b.proc()
				held := other.lock("x")
				gate := memstore.NewGate()
				remove := p.store.Hook(memstore.Before, op, gate.Pass)
				a := p.begin("x")
				<-gate.Reached()
				remove()
				a.cancel()
				require.ErrorIs(b.t, a.failed(), context.Canceled)
				began := time.Now()
				require.NoError(b.t, p.closeIn(time.Minute))
				require.Zero(b.t, time.Since(began))
				require.Zero(b.t, p.store.Taps())
				b.unlock(held)
			})
		})
	}
}

// TestScenarioHundredThousandHandOvers: one key, one process, callers that give up in the very moment in which others come and go. Nobody
// is overlooked or told by the re-check only, there are few reads, and no goroutine, line or number is left.
func TestScenarioHundredThousandHandOvers(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		const callers = 8
		rounds := enough(100_000) / callers
		var wg sync.WaitGroup
		inside := 0 // guarded by the lock itself
		for c := range callers {
			wg.Go(func() {
				for i := range rounds {
					ctx, cancel := context.WithCancel(b.ctx)
					if (i+c)%5 == 0 {
						go cancel()
					}
					l, err := p.Lock(ctx, "x")
					if err == nil {
						if inside++; inside != 1 {
							b.t.Errorf("%d inside", inside)
						}
						inside--
						err = l.Unlock(b.ctx)
					} else if ctx.Err() != nil {
						err = nil
					}
					cancel()
					if err != nil {
						b.t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		s := p.Stats()
		require.GreaterOrEqual(b.t, s.Grants, int64(callers*rounds*4/5))
		require.Zero(b.t, s.Lost+s.Requeued+s.GrantsByRecheck+s.StreamsFailed)
		require.Less(b.t, s.Reads, s.Grants/20, "a number right behind one that was given up is told by an event or a read")
		require.Empty(b.t, p.names())
		b.requireIdle("x")
	})
}
