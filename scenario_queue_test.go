package fairlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
)

// Tests named TestScenario… are what docs/track-record.md has of other people's reports.

// crash makes a process vanish for everybody else, until mend: no call of its is answered any more.
func (p *proc) crash() (mend func()) {
	return p.store.Hook(memstore.Before, memstore.OpAny, memstore.Hang)
}

// TestScenarioRandomLives: processes come, wait, give up, hold, let holds end, vanish and come back in random order. A lease is never
// longer than its own TTL, whatever the neighbours do; there is one holder at a time, in the order of numbers; and who stays is
// served.
func TestScenarioRandomLives(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(b *bed) { newLives(b, seed).live() })
		})
	}
}

// lives is the state of one such run.
type lives struct {
	b     *bed
	rng   *rand.Rand
	mends map[*proc]func() // of those that have vanished
	calls []*attempt       // that were not cancelled, and whose lock was not given back
	last  int64            // the highest token so far
	seen  map[*attempt]bool
}

func newLives(b *bed, seed uint64) *lives {
	for range 6 {
		b.proc()
	}
	return &lives{b: b, rng: rand.New(rand.NewPCG(seed, 2)), mends: map[*proc]func(){}, seen: map[*attempt]bool{}}
}

func (s *lives) live() {
	for range 120 {
		p := s.b.procs[s.rng.IntN(len(s.b.procs))]
		switch n := s.rng.IntN(12); {
		case n < 5 && len(s.calls) < 15:
			var opts []Option
			if s.rng.IntN(3) == 0 {
				opts = append(opts, MaxHold(time.Duration(1+s.rng.IntN(5000))*time.Millisecond))
			}
			s.calls = append(s.calls, p.begin("x", opts...))
		case n < 8:
			s.leave()
		case n == 8:
			if mend := s.mends[p]; mend != nil {
				mend()
				delete(s.mends, p)
			} else if len(s.mends) < 3 {
				s.mends[p] = p.crash()
			}
		default:
			time.Sleep(time.Duration(s.rng.IntN(4000)) * time.Millisecond)
		}
		s.check()
	}
	for _, mend := range s.mends {
		mend()
	}
	for began := time.Now(); len(s.calls) > 0; time.Sleep(50 * time.Millisecond) {
		require.Less(s.b.t, time.Since(began), 5*testTTL, "%d of those who stayed are not served", len(s.calls))
		s.check()
		s.calls = slices.DeleteFunc(s.calls, func(a *attempt) bool {
			if a.over() {
				_ = a.lock.Unlock(s.b.ctx)
			}
			return a.over()
		})
	}
	time.Sleep(testTTL)
	s.b.requireIdle("x")
}

// leave ends one call: by Unlock if it holds, and otherwise by its context.
func (s *lives) leave() {
	if len(s.calls) == 0 {
		return
	}
	i := s.rng.IntN(len(s.calls))
	a := s.calls[i]
	s.calls = slices.Delete(s.calls, i, i+1)
	if !a.over() {
		a.cancel()
		return
	}
	short, cancel := context.WithTimeout(s.b.ctx, time.Second) // its process may have vanished
	defer cancel()
	_ = a.lock.Unlock(short)
}

func (s *lives) check() {
	synctest.Wait()
	holders := 0
	var tokens []int64
	for _, a := range s.calls {
		if !a.over() {
			continue
		}
		require.NoError(s.b.t, a.err)
		if a.lock.Err() == nil {
			holders++
		}
		if !s.seen[a] {
			s.seen[a] = true
			tokens = append(tokens, a.lock.Token())
		}
	}
	require.LessOrEqual(s.b.t, holders, 1, "holders (I4)")
	slices.Sort(tokens)
	for _, token := range tokens {
		require.Greater(s.b.t, token, s.last, "a grant before the one that was granted last (I5)")
		s.last = token
	}
	for _, p := range s.b.procs {
		if sess, found := s.b.srv.Session(p.Session()); found {
			require.LessOrEqual(s.b.t, time.Until(sess.ExpiresAt), testTTL, "no lease is longer than its own")
		}
	}
}

// TestScenarioFiveHundredExpire: nobody of five hundred waiters unlocks. Each hold ends by itself, and now and then a process cannot
// renew its lease for longer than that lasts. All five hundred are served, one after the other, in the order of numbers.
func TestScenarioFiveHundredExpire(t *testing.T) {
	bubble(t, func(b *bed) {
		const procs, each, hold = 25, 20, 100 * time.Millisecond
		for range procs {
			b.proc(func(c *Config) { c.Margin = 100 * time.Millisecond })
		}
		var mu sync.Mutex
		var granted []int64
		var calls []*attempt
		for i := range procs * each {
			calls = append(calls, b.attempt(func(ctx context.Context) (*Lock, error) {
				l, err := b.procs[i%procs].Lock(ctx, "x", MaxHold(hold))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					granted = append(granted, l.Token())
				}
				return l, err
			}))
		}
		for i := 0; i < procs; i += 5 {
			time.Sleep(5 * time.Second)
			mend := b.procs[i].store.Hook(memstore.Before, memstore.OpRenew, memstore.Fail(1000, memstore.ErrNoReply))
			time.Sleep(testTTL + time.Duration(i)*100*time.Millisecond)
			mend()
		}
		time.Sleep(procs * each * (hold + hold))
		for _, a := range calls {
			require.ErrorIs(b.t, a.granted().Unlock(b.ctx), ErrLost)
		}
		require.Len(b.t, granted, procs*each)
		require.True(b.t, slices.IsSorted(granted), "in the order of numbers (I5)")
		b.requireIdle("x")
	})
}

// TestScenarioRestart: a process dies with the lock and twenty places behind it, and is started again at once. What it left delays
// it by a lease and a look, not by a lease for each, and it has nothing to do with its former self.
func TestScenarioRestart(t *testing.T) {
	bubble(t, func(b *bed) {
		dead := b.proc()
		held := dead.lock("x")
		for range 20 {
			dead.begin("x")
		}
		time.Sleep(time.Second)
		mend := dead.crash()
		died := time.Now()
		again := b.proc()
		l := again.begin("x").grantedIn(2 * testTTL)
		require.LessOrEqual(b.t, time.Since(died), testTTL+2*testTTL/10+longestDoze)
		require.NotEqual(b.t, dead.Session(), again.Session())
		require.Greater(b.t, l.Token(), held.Token()+20)
		b.unlock(l)
		b.requireIdle("x")
		mend()
	})
}

// TestScenarioHolderDeletedByHand: of a dead holder somebody deletes the ticket, the session, or both. Waking the next one depends on
// none of them.
func TestScenarioHolderDeletedByHand(t *testing.T) {
	for name, what := range map[string]struct{ ticket, session bool }{
		"ticket": {ticket: true}, "session": {session: true}, "both": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bed) {
				dead, p := b.proc(), b.proc()
				held := dead.lock("x")
				next := p.begin("x")
				time.Sleep(time.Second)
				mend := dead.crash()
				if what.ticket {
					b.srv.DropTicket(queue.TicketID{Lock: "x", Lo: held.Token()})
				}
				if what.session {
					b.srv.DropSession(dead.Session())
				}
				l := next.grantedIn(2 * testTTL) // what was seen of the ticket is believed for a few looks
				require.ErrorIs(b.t, held.Err(), ErrLost)
				mend()
				time.Sleep(testTTL)
				require.NoError(b.t, l.Err())
				b.unlock(l)
				b.requireIdle("x")
			})
		})
	}
}

// TestScenarioLongWait: a waiter that lives waits for as long as it takes: a hundred leases. It keeps its number, nobody takes it for
// dead, and when it is granted the lock it has nearly a whole lease before it: a lease begins with a renewal, not with a wait.
func TestScenarioLongWait(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q, r := b.proc(), b.proc(), b.proc()
		held := p.lock("x")
		second, third := q.begin("x"), r.begin("x")
		time.Sleep(100 * testTTL)
		require.False(b.t, second.over())
		b.unlock(held)
		l := second.granted()
		require.Equal(b.t, held.Token()+1, l.Token())
		require.GreaterOrEqual(b.t, l.Left(), testTTL-testTTL/3-testMargin)
		b.unlock(l)
		l = third.granted()
		require.Equal(b.t, held.Token()+2, l.Token())
		b.unlock(l)
		for _, p := range b.procs {
			s := p.Stats()
			require.Zero(b.t, s.Lost+s.Requeued+s.SessionsEnded+s.OrphansBuried)
		}
	})
}

// TestScenarioCallsFailAsTheCallerLeaves: each call that goes to the database for a waiter fails in the moment in which the waiter gives
// up, whether it took effect or not. Nothing is left, and the next is served at once.
func TestScenarioCallsFailAsTheCallerLeaves(t *testing.T) {
	for _, op := range []memstore.Op{
		memstore.OpBeginSession, memstore.OpEnqueue, memstore.OpPutTicket, memstore.OpSettle, memstore.OpDropTickets,
		memstore.OpBegin, memstore.OpOpen, memstore.OpOpeningViews, memstore.OpNext, memstore.OpSourceViews, memstore.OpRenew,
	} {
		for at, when := range map[memstore.Point]string{memstore.Before: "not done", memstore.After: "done"} {
			t.Run(string(op)+" "+when, func(t *testing.T) {
				bubble(t, func(b *bed) {
					p, other := b.proc(), b.proc()
					p.owner, other.owner = 0, 1 // with one slot for both, a repeat after the other's arrival would be an orphan
					held := other.lock("x")
					ctx, cancel := context.WithCancel(b.ctx)
					defer cancel()
					hit := false // calls of one process for one waiter, of which the first is meant
					p.store.Hook(at, op, func(context.Context, string) error {
						if hit {
							return nil
						}
						hit = true
						cancel()
						return memstore.ErrNoReply
					})
					if op == memstore.OpBeginSession || op == memstore.OpEnqueue {
						_, err := p.Lock(ctx, "x")
						require.ErrorIs(b.t, err, context.Canceled)
					} else {
						a := b.attempt(func(context.Context) (*Lock, error) { return p.Lock(ctx, "x") })
						time.Sleep(testTTL/3 + time.Millisecond) // a ticket, a stream, a renewal
						cancel()
						require.ErrorIs(b.t, a.failed(), context.Canceled)
					}
					behind := b.procs[1].begin("x")
					b.unlock(held)
					b.unlock(behind.grantedIn(time.Second))
					time.Sleep(5 * testTTL) // a session that nobody knows of is swept
					require.True(b.t, hit || op == memstore.OpSourceViews || op == memstore.OpNext && at == memstore.After)
					b.requireIdle("x")
				})
			})
		}
	}
}

// TestScenarioTimeLeaps: machines are suspended for any time at any moment, and limits are as short as can be. No time that is left is
// ever negative, and none that has passed is waited for.
func TestScenarioTimeLeaps(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(b *bed) {
				rng := rand.New(rand.NewPCG(seed, 3))
				some := func() time.Duration { return time.Duration(1 + rng.Int64N(1<<(1+rng.IntN(34)))) } // 1 ns to 17 s
				procs := []*proc{b.proc(), b.proc(), b.proc()}
				for range 60 {
					wait := some()
					a := procs[rng.IntN(3)].begin("x", MaxWait(wait), MaxHold(some()))
					procs[rng.IntN(3)].clk.Sleep(some())
					time.Sleep(wait)
					require.True(b.t, a.over())
					if a.err != nil {
						require.ErrorIs(b.t, a.err, ErrWaitLimit)
						continue
					}
					require.GreaterOrEqual(b.t, a.lock.Left(), time.Duration(0))
					if a.lock.Extend(some()) == nil {
						require.Positive(b.t, a.lock.Left())
					}
					if rng.IntN(2) == 0 {
						_ = a.lock.Unlock(b.ctx)
					}
				}
				time.Sleep(5 * testTTL)
				b.unlock(procs[0].begin("x").grantedIn(testTTL))
				b.requireIdle("x")
			})
		})
	}
}
