package integration

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/replset"
)

// load is callers that take one lock in turn until they are stopped, under the eyes of holds.
type load struct {
	t      *testing.T
	holds  *holds
	ms     []*fairlock.Manager
	stop   atomic.Bool
	wg     sync.WaitGroup
	grants atomic.Int64
	lost   atomic.Int64
	gap    struct {
		mu   sync.Mutex // guards both
		last time.Time
		most time.Duration
	}
}

// startLoad runs goroutines on each manager. Losing a lock is counted and is no failure by itself: the server's side must
// still be right, which is what holds checks with the trust at the moment of entering and leaving.
func startLoad(t *testing.T, ms []*fairlock.Manager, goroutines int) *load {
	ld := &load{t: t, holds: &holds{t: t}, ms: ms}
	ld.gap.last = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	t.Cleanup(func() { ld.end(); cancel() })
	for _, m := range ms {
		for range goroutines {
			ld.wg.Go(func() {
				for !ld.stop.Load() {
					l, err := m.Lock(ctx, "load")
					if err != nil {
						t.Errorf("Lock: %v", err)
						return
					}
					ld.note()
					ld.holds.enter(l.Token())
					ld.holds.leave()
					if err := l.Unlock(ctx); err != nil {
						require.ErrorIs(t, err, fairlock.ErrLost)
						ld.lost.Add(1)
					}
				}
			})
		}
	}
	return ld
}

func (ld *load) note() {
	ld.grants.Add(1)
	ld.gap.mu.Lock()
	defer ld.gap.mu.Unlock()
	ld.gap.most = max(ld.gap.most, time.Since(ld.gap.last))
	ld.gap.last = time.Now()
}

// more waits for n further grants.
func (ld *load) more(n int64) {
	ld.t.Helper()
	want := ld.grants.Load() + n
	eventually(ld.t, "more grants", func() bool { return ld.grants.Load() >= want })
}

// mostGap is the longest time without a grant since the last call.
func (ld *load) mostGap() time.Duration {
	ld.gap.mu.Lock()
	defer ld.gap.mu.Unlock()
	was := ld.gap.most
	ld.gap.most = 0
	return was
}

func (ld *load) end() {
	ld.stop.Store(true)
	ld.wg.Wait()
}

func (b *bed) managers(n int, cfg fairlock.Config) []*fairlock.Manager {
	var ms []*fairlock.Manager
	for range n {
		ms = append(ms, b.manager(cfg))
	}
	return ms
}

// closeAll closes managers, so that the database can be looked at.
func closeAll(t *testing.T, ms []*fairlock.Manager) {
	t.Helper()
	for _, m := range ms {
		require.NoError(t, m.Close(withLimit(t)))
	}
}

func TestStepDownUnderLoad(t *testing.T) {
	t.Parallel()
	ctx := withLimit(t)
	set := replset.ForTest(t, replset.Options{})
	b := newBedAt(t, set.URI())
	ms := b.managers(3, fairlock.Config{})
	held, err := ms[0].Lock(ctx, "held")
	require.NoError(t, err)
	ld := startLoad(t, ms, 3)
	ld.more(100)
	for range 3 {
		ld.mostGap()
		require.NoError(t, set.StepDown(ctx, 2))
		ld.more(100)
		gap := ld.mostGap()
		t.Logf("longest gap between grants around a step-down: %v", gap.Round(time.Millisecond))
		_, err := set.WaitPrimary(ctx)
		require.NoError(t, err)
	}
	ld.end()
	require.Zero(t, ld.lost.Load())
	require.NoError(t, held.Err(), "a holder is not lost in a step-down")
	require.NoError(t, held.Unlock(ctx))
	closeAll(t, ms)
	b.requireQuiet()
}

func TestKillPrimaryUnderLoad(t *testing.T) {
	t.Parallel()
	ctx := withLimit(t)
	set := replset.ForTest(t, replset.Options{}) // the server's own election timeout, 10 s
	b := newBedAt(t, set.URI())
	ms := b.managers(3, fairlock.Config{})
	held, err := ms[0].Lock(ctx, "held")
	require.NoError(t, err)
	ld := startLoad(t, ms, 3)
	ld.more(100)
	ld.mostGap()
	primary, err := set.Primary(ctx)
	require.NoError(t, err)
	require.NoError(t, primary.Kill())
	ld.more(100)
	t.Logf("longest gap between grants around a killed primary: %v", ld.mostGap().Round(time.Millisecond))
	require.NoError(t, primary.Restart(ctx))
	ld.more(100)
	ld.end()
	require.Zero(t, ld.lost.Load(), "the default lease outlives a failover")
	require.NoError(t, held.Err())
	require.NoError(t, held.Unlock(ctx))
	closeAll(t, ms)
	b.requireQuiet()
}

// TestPausedPrimary freezes the primary past an election and lets it go on: what it believes must fool nobody.
func TestPausedPrimary(t *testing.T) {
	t.Parallel()
	ctx := withLimit(t)
	set := replset.ForTest(t, replset.Options{ElectionTimeout: 3 * time.Second})
	b := newBedAt(t, set.URI())
	// After the election the servers may confirm nothing for another 16 s (docs/operations.md), which the default lease does not outlive for sure.
	ms := b.managers(3, fairlock.Config{TTL: time.Minute})
	ld := startLoad(t, ms, 3)
	ld.more(100)
	ld.mostGap()
	primary, err := set.Primary(ctx)
	require.NoError(t, err)
	require.NoError(t, primary.Pause())
	ld.more(20)
	t.Logf("longest gap between grants around a frozen primary: %v", ld.mostGap().Round(time.Millisecond))
	require.NoError(t, primary.Resume())
	ld.more(100)
	ld.end()
	require.Zero(t, ld.lost.Load())
	closeAll(t, ms)
	b.requireQuiet()
}

// TestDropUnderLoad drops each collection while it is in use. Tokens go on rising, callers are served, holders are told
// when what is dropped takes their lock away, and nobody is stranded.
func TestDropUnderLoad(t *testing.T) {
	t.Parallel()
	for _, coll := range []string{"locks", "tickets", "sessions"} {
		t.Run(coll, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			ctx := withLimit(t)
			ms := b.managers(2, fairlock.Config{TTL: shortTTL, TicketDelay: 10 * time.Millisecond})
			held, err := ms[0].Lock(ctx, "held")
			require.NoError(t, err)
			waiting := waitBehind(t, ctx, ms[1], "held")
			b.awaitWaiters(ms[0], "held", 1)
			ld := startLoad(t, ms, 2)
			if coll == "locks" {
				// The record of who holds is what is dropped; two may hold until they are told.
				ld.holds.tokensOnly()
			}
			ld.more(50)
			require.NoError(t, b.coll(coll).Drop(ctx))
			ld.more(50)
			switch coll {
			case "tickets":
				require.NoError(t, held.Err())
				eventually(t, "tickets written again", func() bool {
					info, err := ms[0].Inspect(ctx, "held")
					require.NoError(t, err)
					return len(info.Waiters) == 1 && info.Waiters[0].Owner != nil && info.Holders[0].Owner != nil
				})
				time.Sleep(shortTTL + time.Second) // longer than a reaper would wait for a missing ticket
				require.NoError(t, held.Err())
				require.NoError(t, held.Unlock(ctx))
			default:
				<-held.Context().Done()
				require.ErrorIs(t, held.Err(), fairlock.ErrLost)
				require.ErrorIs(t, held.Unlock(ctx), fairlock.ErrLost)
			}
			next := <-waiting
			require.Greater(t, next.Token(), held.Token())
			if err := next.Unlock(ctx); coll == "sessions" {
				// The waiter's session was dropped too; it may have been granted before it was told.
				require.True(t, err == nil || errors.Is(err, fairlock.ErrLost), "%v", err)
			} else {
				require.NoError(t, err)
			}
			ld.end()
			closeAll(t, ms)
		})
	}
}

// TestDeletedLockDocument deletes one lock document under its holder and waiter.
func TestDeletedLockDocument(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m1, m2 := b.manager(fairlock.Config{TTL: shortTTL}), b.manager(fairlock.Config{TTL: shortTTL})
	held, err := m1.Lock(ctx, "x")
	require.NoError(t, err)
	waiting := waitBehind(t, ctx, m2, "x")
	b.awaitWaiters(m1, "x", 1)
	_, err = b.coll("locks").DeleteOne(ctx, bson.D{{Key: "_id", Value: "x"}})
	require.NoError(t, err)
	l := <-waiting
	require.Greater(t, l.Token(), held.Token())
	<-held.Context().Done()
	require.ErrorIs(t, held.Unlock(ctx), fairlock.ErrLost)
	require.NoError(t, l.Err())
	require.NoError(t, l.Unlock(ctx))
}
