package integration

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/queue"
)

// recovery is the bound that is promised after a death: the lease, and 5 s for the look and the writes.
const recovery = shortTTL + 5*time.Second

// waitBehind starts a Lock call in the test's own process and returns its result.
func waitBehind(t testing.TB, ctx context.Context, m *fairlock.Manager, name string) <-chan *fairlock.Lock {
	got := make(chan *fairlock.Lock, 1)
	go func() {
		l, err := m.Lock(ctx, name)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	return got
}

func requireRecovery(t *testing.T, since time.Time, what string) {
	t.Helper()
	took := time.Since(since)
	t.Logf("%s: next grant after %v (lease %v)", what, took.Round(10*time.Millisecond), shortTTL)
	require.Less(t, took, recovery, what)
}

// killHolder kills a process that holds "x", with m waiting behind it.
func (b *bed) killHolder(t *testing.T, ctx context.Context) (m *fairlock.Manager, dead report, next <-chan *fairlock.Lock, killed time.Time) {
	t.Helper()
	m = b.manager(fairlock.Config{TTL: shortTTL})
	w := b.startWorker(workerConfig{TTL: shortTTL})
	w.order("lock", 1, "x")
	dead = w.await("granted")
	next = waitBehind(t, ctx, m, "x")
	b.awaitWaiters(m, "x", 1)
	w.signal(syscall.SIGKILL)
	return m, dead, next, time.Now()
}

func TestKillHolder(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m, dead, next, killed := b.killHolder(t, ctx)
	l := <-next
	requireRecovery(t, killed, "holder killed")
	require.Greater(t, l.Token(), dead.Token)
	require.NoError(t, l.Unlock(ctx))
	require.EqualValues(t, 1, m.Stats().SessionsEnded)
}

// TestKillHolderWithoutSession: the session document of a dead holder is gone too. Absence proves nothing, so an ended
// session is written in its place before its ticket is cleared.
func TestKillHolderWithoutSession(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	_, dead, next, killed := b.killHolder(t, ctx)
	_, err := b.coll("sessions").DeleteOne(ctx, bson.D{{Key: "_id", Value: dead.Session}})
	require.NoError(t, err)
	l := <-next
	requireRecovery(t, killed, "holder killed, session deleted")
	require.NoError(t, l.Unlock(ctx))
	var s bson.M
	require.NoError(t, b.coll("sessions").FindOne(ctx, bson.D{{Key: "_id", Value: dead.Session}}).Decode(&s))
	require.Equal(t, true, s["ended"])
}

// TestKillHundredWaiters kills a process that holds and has a hundred callers waiting, and one that only waits: one lease for all.
func TestKillHundredWaiters(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{TTL: shortTTL})
	holder, crowd := b.startWorker(workerConfig{TTL: shortTTL}), b.startWorker(workerConfig{TTL: shortTTL})
	holder.order("lock", 0, "x")
	holder.await("granted")
	for i := range 100 {
		w := []*worker{holder, crowd}[i%2]
		w.order("lock", i+1, "x")
	}
	b.awaitWaiters(m, "x", 100)
	next := waitBehind(t, ctx, m, "x")
	b.awaitWaiters(m, "x", 101)
	holder.signal(syscall.SIGKILL)
	crowd.signal(syscall.SIGKILL)
	killed := time.Now()
	l := <-next
	requireRecovery(t, killed, "two processes with 100 waiters killed")
	require.NoError(t, l.Unlock(ctx))
}

// TestKillBetweenNumberAndTicket kills a waiter whose number has been issued and whose ticket has not been written, and then
// one that holds in that state: orphan numbers.
func TestKillBetweenNumberAndTicket(t *testing.T) {
	t.Parallel()
	for _, holds := range []bool{false, true} {
		t.Run(fmt.Sprintf("holds=%v", holds), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			ctx := withLimit(t)
			m := b.manager(fairlock.Config{TTL: shortTTL})
			q := queue.Open(b.db, "fairlock.", true)
			late := b.startWorker(workerConfig{TTL: shortTTL, TicketDelay: shortTTL / 4})
			var front *fairlock.Lock
			if !holds {
				var err error
				front, err = m.Lock(ctx, "x")
				require.NoError(t, err)
			}
			issued := func() int64 {
				v, _, err := q.View(ctx, "x")
				require.NoError(t, err)
				return v.Issued
			}
			before := issued()
			late.order("lock", 1, "x")
			eventually(t, "number issued", func() bool { return issued() > before })
			late.signal(syscall.SIGKILL)
			killed := time.Now()
			tickets, err := q.Tickets(ctx, "x", 1<<62, 10)
			require.NoError(t, err)
			for _, k := range tickets {
				require.Less(t, k.ID.Lo, issued(), "the crash was to come before the ticket")
			}
			next := waitBehind(t, ctx, m, "x")
			if front != nil {
				require.NoError(t, front.Unlock(ctx))
			}
			l := <-next
			requireRecovery(t, killed, "orphan number")
			require.NoError(t, l.Unlock(ctx))
			require.Positive(t, m.Stats().OrphansBuried)
			b.sweepAway(m) // its session had no ticket, so nobody in line had to end it
		})
	}
}

// TestManyDeadProcessesCostOneLease kills a line of processes, each with one waiter.
func TestManyDeadProcessesCostOneLease(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{TTL: shortTTL})
	var line []*worker
	for i := range 5 {
		w := b.startWorker(workerConfig{TTL: shortTTL})
		line = append(line, w)
		w.order("lock", 1, "x")
		if i == 0 {
			w.await("granted")
		} else {
			b.awaitWaiters(m, "x", i)
		}
	}
	next := waitBehind(t, ctx, m, "x")
	b.awaitWaiters(m, "x", 5)
	for _, w := range line {
		w.signal(syscall.SIGKILL)
	}
	killed := time.Now()
	l := <-next
	requireRecovery(t, killed, "five processes killed")
	require.NoError(t, l.Unlock(ctx))
}

// TestPausedHolder stops a holder past its lease and lets it go on: it must know at its first question, and the resource must
// refuse its old token.
func TestPausedHolder(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{TTL: shortTTL})
	w := b.startWorker(workerConfig{TTL: shortTTL})
	w.order("lock", 1, "x")
	stale := w.await("granted")
	next := waitBehind(t, ctx, m, "x")
	b.awaitWaiters(m, "x", 1)
	w.signal(syscall.SIGSTOP)
	l := <-next
	fence := b.db.Collection("ledger")
	write := func(token int64) int64 {
		res, err := fence.UpdateOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "token", Value: bson.D{{Key: "$lte", Value: token}}}},
			bson.D{{Key: "$set", Value: bson.D{{Key: "token", Value: token}}}})
		require.NoError(t, err)
		return res.MatchedCount
	}
	_, err := fence.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "token", Value: int64(0)}})
	require.NoError(t, err)
	require.EqualValues(t, 1, write(l.Token()))

	w.order("err", 1, "") // the first thing it reads when it wakes
	w.signal(syscall.SIGCONT)
	r := w.await("err")
	require.True(t, r.IsLost, "Err at the first call after waking: %q", r.Err)
	w.order("unlock", 1, "")
	cause, unlocked := w.await("cause"), w.await("unlocked")
	require.True(t, cause.IsLost, "the context's cause: %q", cause.Err)
	require.True(t, unlocked.IsLost, "Unlock: %q", unlocked.Err)
	require.Zero(t, write(stale.Token), "a write with the old token")
	require.NoError(t, l.Err(), "the new holder is not touched")
	require.NoError(t, l.Unlock(ctx))

	// The woken process goes on under a new session.
	w.order("lock", 2, "x")
	require.Greater(t, w.await("granted").Token, l.Token())
	w.order("unlock", 2, "")
	require.Empty(t, w.await("unlocked").Err)
	w.signal(syscall.SIGKILL)
	// Nobody waits behind it now; the sweep ends its session. Make it quiet by waiting for that.
	b.sweepAway(m)
}

// TestShortPauseLosesNothing stops a holder for less than its lease.
func TestShortPauseLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	m := b.manager(fairlock.Config{TTL: shortTTL})
	w := b.startWorker(workerConfig{TTL: 2 * shortTTL})
	w.order("lock", 1, "x")
	w.await("granted")
	w.signal(syscall.SIGSTOP)
	// The pause must have some length; the lease of the worker is 6 s.
	time.Sleep(time.Second)
	w.order("err", 1, "")
	w.signal(syscall.SIGCONT)
	require.Empty(t, w.await("err").Err)
	w.order("unlock", 1, "")
	require.Empty(t, w.await("unlocked").Err)
	w.signal(syscall.SIGKILL)
	b.sweepAway(m)
}

// sweepAway waits until m's sweep has ended the sessions of all other processes. m needs a session for that.
func (b *bed) sweepAway(m *fairlock.Manager) {
	b.t.Helper()
	ctx := withLimit(b.t)
	require.NoError(b.t, m.Do(ctx, "sweep away", func(context.Context) error { return nil }))
	eventually(b.t, "sessions swept", func() bool {
		n, err := b.coll("sessions").CountDocuments(ctx, bson.D{
			{Key: "_id", Value: bson.D{{Key: "$ne", Value: m.Session()}}}, {Key: "cleared", Value: bson.D{{Key: "$ne", Value: true}}},
		})
		require.NoError(b.t, err)
		return n == 0
	})
}

// TestSweepClearsWhatNobodyWaitsFor kills a holder behind whom nobody waits; TryLock then gets the lock.
func TestSweepClearsWhatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{TTL: shortTTL})
	require.NoError(t, m.Do(ctx, "other", func(context.Context) error { return nil }))
	w, early := b.startWorker(workerConfig{TTL: shortTTL}), b.startWorker(workerConfig{TTL: shortTTL, TicketDelay: shortTTL / 4})
	w.order("lock", 1, "ticketed")
	w.await("granted")
	eventually(t, "ticket", func() bool {
		info, err := m.Inspect(ctx, "ticketed")
		return err == nil && info.Holders[0].Owner != nil
	})
	early.order("lock", 1, "orphan")
	early.await("granted")
	early.signal(syscall.SIGKILL)
	w.signal(syscall.SIGKILL)
	killed := time.Now()
	for _, name := range []string{"ticketed", "orphan"} {
		eventually(t, name+" free", func() bool {
			l, err := m.TryLock(ctx, name)
			if err != nil {
				require.ErrorIs(t, err, fairlock.ErrBusy)
				return false
			}
			require.NoError(t, l.Unlock(ctx))
			return true
		})
		t.Logf("%s: free %v after the kill (lease %v)", name, time.Since(killed).Round(100*time.Millisecond), shortTTL)
	}
	b.sweepAway(m)
}
