package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/queue"
)

// Faults that a review found, each with the interleaving that showed it.

// insertTombstone puts what a reaper would put where a ticket is due.
func (b *bed) insertTombstone(name string, n int64) {
	b.t.Helper()
	_, err := b.coll("tickets").InsertOne(withLimit(b.t), queue.Ticket{
		ID: queue.TicketID{Lock: name, Lo: n}, Hi: n, At: time.Now(), Labels: []string{}, Tomb: true,
	})
	require.NoError(b.t, err)
}

// issued waits until the lock has issued number n.
func (b *bed) awaitIssued(name string, n int64) {
	b.t.Helper()
	q := queue.Open(b.db, "fairlock.", true)
	eventually(b.t, fmt.Sprintf("%q has issued %d", name, n), func() bool {
		v, found, err := q.View(withLimit(b.t), name)
		require.NoError(b.t, err)
		return found && v.Issued >= n
	})
}

// TestWaitingRunOpensNothing: a run of waiters loses its first number to a tombstone and is then cancelled. Its settle must not let
// the next caller of the process believe that all before it is settled.
func TestWaitingRunOpensNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	p1, p2 := b.manager(fairlock.Config{}), b.manager(fairlock.Config{TicketDelay: time.Second})
	h, err := p1.Lock(ctx, "x")
	require.NoError(t, err)
	waiters, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for i := range int64(2) {
		wg.Go(func() { _, _ = p2.Lock(waiters, "x") })
		b.awaitIssued("x", h.Token()+i+1)
	}
	b.insertTombstone("x", h.Token()+1)
	b.awaitIssued("x", h.Token()+3) // the first queues again
	cancel()
	wg.Wait()
	_, err = p2.Lock(ctx, "x", fairlock.MaxWait(time.Second))
	require.ErrorIs(t, err, fairlock.ErrWaitLimit)
	require.NoError(t, h.Err())
	require.NoError(t, h.Unlock(ctx))
}

// TestRecreatedDocumentGrantsNoOldNumber: a lock document is deleted under a waiter and made anew, and somebody leaves the new queue
// out of order, so that the event has a frontier and no settled.
func TestRecreatedDocumentGrantsNoOldNumber(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	ms := b.managers(5, fairlock.Config{})
	for _, m := range ms {
		require.NoError(t, m.Do(ctx, "warm", func(context.Context) error { return nil }))
	}
	// The scenario needs x to arrive before w has noticed that the document is gone, which the server decides.
	for try := 0; !recreateUnder(t, ctx, b, ms, fmt.Sprint("x", try)); try++ {
		require.Less(t, try, 20)
	}
}

func recreateUnder(t *testing.T, ctx context.Context, b *bed, ms []*fairlock.Manager, name string) bool {
	a, w, x, y, z := ms[0], ms[1], ms[2], ms[3], ms[4]
	ha, err := a.Lock(ctx, name)
	require.NoError(t, err)
	got := waitBehind(t, ctx, w, name)
	b.awaitIssued(name, ha.Token()+1)
	eventually(t, "stream open", func() bool { return w.Stats().Streaming })
	_, err = b.coll("locks").DeleteOne(ctx, bson.D{{Key: "_id", Value: name}})
	require.NoError(t, err)
	xs := waitBehind(t, ctx, x, name)
	var hx *fairlock.Lock
	select {
	case hx = <-xs:
	case l := <-got: // w was first
		require.NoError(t, l.Unlock(ctx))
		require.NoError(t, (<-xs).Unlock(ctx))
		require.ErrorIs(t, ha.Unlock(ctx), fairlock.ErrLost)
		return false
	}
	short, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() { defer close(gone); _, _ = y.Lock(short, name) }()
	b.awaitIssued(name, hx.Token()+1)
	hz := waitBehind(t, ctx, z, name)
	b.awaitIssued(name, hx.Token()+2)
	cancel()
	<-gone
	select {
	case l := <-got:
		require.Fail(t, "granted beside another", "token %d while %d holds", l.Token(), hx.Token())
	case <-time.After(2 * time.Second):
	}
	require.NoError(t, hx.Unlock(ctx))
	for range 2 { // w has queued again, before or behind z
		var l *fairlock.Lock
		select {
		case l = <-got:
		case l = <-hz:
		}
		require.NotNil(t, l)
		require.Greater(t, l.Token(), hx.Token())
		require.NoError(t, l.Unlock(ctx))
	}
	require.ErrorIs(t, ha.Unlock(ctx), fairlock.ErrLost)
	return true
}

// TestCloseWhileArriving closes a manager while an arrival is on its way, at many moments: the call ends with ErrClosed,
// Close ends, nothing is granted and nothing is left.
func TestCloseWhileArriving(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	other := b.manager(fairlock.Config{})
	held, err := other.Lock(ctx, "held")
	require.NoError(t, err)
	for i := range 60 {
		m := b.manager(fairlock.Config{})
		name := fmt.Sprint("free ", i)
		if i%2 == 0 {
			name = "held"
		}
		require.NoError(t, m.Do(ctx, "warm", func(context.Context) error { return nil }))
		type result struct {
			l   *fairlock.Lock
			err error
		}
		got := make(chan result, 1)
		go func() {
			l, err := m.Lock(ctx, name)
			got <- result{l, err}
		}()
		time.Sleep(time.Duration(i%20) * 150 * time.Microsecond)
		require.NoError(t, m.Close(ctx))
		r := <-got
		if r.err != nil {
			require.ErrorIs(t, r.err, fairlock.ErrClosed)
		} else {
			require.ErrorIs(t, r.l.Err(), fairlock.ErrLost, "granted before Close, so lost by it")
		}
	}
	require.NoError(t, held.Unlock(ctx))
}

// TestLocalCancelStrandsNobody: numbers before and behind the holder's are given back while it holds, and a caller joins the run.
func TestLocalCancelStrandsNobody(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{})
	for i := range 20 {
		name := fmt.Sprint("x", i)
		l1, err := m.Lock(ctx, name)
		require.NoError(t, err)
		second := waitBehind(t, ctx, m, name)
		b.awaitIssued(name, l1.Token()+1)
		short, cancel := context.WithCancel(ctx)
		gone := make(chan struct{})
		go func() { defer close(gone); _, _ = m.Lock(short, name) }()
		b.awaitIssued(name, l1.Token()+2)
		require.NoError(t, l1.Unlock(ctx))
		l2 := <-second
		fourth := waitBehind(t, ctx, m, name)
		time.Sleep(time.Duration(i) * 100 * time.Microsecond)
		cancel()
		<-gone
		b.awaitIssued(name, l1.Token()+3)
		began := time.Now()
		require.NoError(t, l2.Unlock(ctx))
		l4 := <-fourth
		require.Less(t, time.Since(began), time.Second, "nobody else is there")
		require.NoError(t, l4.Unlock(ctx))
	}
}

// TestLocalRunIsTrimmed: a process in which somebody always waits gives numbers back all the same.
func TestLocalRunIsTrimmed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{})
	h := &holds{t: t}
	stop := time.Now().Add(5 * time.Second)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for time.Now().Before(stop) {
				l, err := m.Lock(ctx, "x")
				if err != nil {
					t.Error(err)
					return
				}
				h.enter(l.Token())
				time.Sleep(500 * time.Microsecond)
				h.leave()
				if err := l.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	q := queue.Open(b.db, "fairlock.", true)
	var most int64
	for time.Now().Before(stop) {
		if v, found, err := q.View(ctx, "x"); err == nil && found {
			most = max(most, v.Issued-v.Settled)
		}
		time.Sleep(50 * time.Millisecond)
	}
	wg.Wait()
	t.Logf("%d acquisitions, at most %d numbers open at one time", h.n, most)
	require.Less(t, most, int64(h.n)/2, "one or two seconds' worth of five")
}

// TestShortMaxHold: a hold that is over before the caller has the lock.
func TestShortMaxHold(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{})
	for range 50 {
		l, err := m.Lock(ctx, "x", fairlock.MaxHold(1))
		require.NoError(t, err)
		require.ErrorIs(t, l.Err(), fairlock.ErrLost)
		require.Zero(t, l.Left())
		require.ErrorIs(t, l.Unlock(ctx), fairlock.ErrLost)
	}
	require.EqualValues(t, 50, m.Stats().Lost)
}

// TestRunOfWhichNothingIsLeft: the holder's ticket fails after the only waiter behind it in the run has given up.
func TestRunOfWhichNothingIsLeft(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{TTL: 4 * time.Second, TicketDelay: time.Second})
	l, err := m.Lock(ctx, "x")
	require.NoError(t, err)
	b.insertTombstone("x", l.Token())
	short, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() { defer close(gone); _, _ = m.Lock(short, "x") }()
	b.awaitIssued("x", l.Token()+1)
	cancel()
	<-gone
	<-l.Context().Done()
	require.ErrorIs(t, l.Unlock(ctx), fairlock.ErrLost)
	next, err := m.Lock(ctx, "x")
	require.NoError(t, err)
	require.NoError(t, next.Unlock(ctx))
	_, err = b.coll("tickets").DeleteMany(ctx, bson.D{{Key: "tomb", Value: true}}) // any reaper's doing
	require.NoError(t, err)
}

// TestCancelledWaitersTicketGoes: the ticket of a waiter that gave up goes while the holder of the same run stays.
func TestCancelledWaitersTicketGoes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{})
	l, err := m.Lock(ctx, "x")
	require.NoError(t, err)
	short, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() { defer close(gone); _, _ = m.Lock(short, "x") }()
	b.awaitWaiters(m, "x", 1)
	cancel()
	<-gone
	b.awaitWaiters(m, "x", 0)
	eventually(t, "one ticket", func() bool {
		n, err := b.coll("tickets").CountDocuments(ctx, bson.D{})
		require.NoError(t, err)
		return n == 1
	})
	require.NoError(t, l.Unlock(ctx))
}
