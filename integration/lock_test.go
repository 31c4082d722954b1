package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/replset"
	"github.com/fairlock/fairlock/queue"
)

// holds records grants and proves mutual exclusion and the order of tokens (I4, I5).
type holds struct {
	t      *testing.T
	mu     sync.Mutex
	inside int
	last   int64
	n      int
	tokens bool // check tokens only
}

func (h *holds) tokensOnly() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tokens = true
}

func (h *holds) enter(token int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inside++
	h.n++
	if h.inside != 1 && !h.tokens {
		h.t.Errorf("%d holders at one time (token %d)", h.inside, token)
	}
	if token <= h.last && !h.tokens {
		h.t.Errorf("token %d after %d", token, h.last)
	}
	h.last = token
}

func (h *holds) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inside--
}

// rounds takes and leaves a lock n times, under the eyes of h.
func (h *holds) rounds(ctx context.Context, m *fairlock.Manager, name string, n int) {
	for range n {
		l, err := m.Lock(ctx, name)
		if err != nil {
			h.t.Error(err)
			return
		}
		h.enter(l.Token())
		h.leave()
		if err := l.Unlock(ctx); err != nil {
			h.t.Error(err)
			return
		}
	}
}

func TestMutualExclusionAndIncreasingTokens(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	h := &holds{t: t}
	var wg sync.WaitGroup
	const managers, goroutines, rounds = 4, 4, 25
	for range managers {
		m := b.manager(fairlock.Config{})
		for range goroutines {
			wg.Go(func() { h.rounds(ctx, m, "x", rounds) })
		}
	}
	wg.Wait()
	require.Equal(t, managers*goroutines*rounds, h.n)
}

// TestFIFOAcrossManagers queues waiters one after the other and sees them granted in that order.
func TestFIFOAcrossManagers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	ms := []*fairlock.Manager{b.manager(fairlock.Config{}), b.manager(fairlock.Config{}), b.manager(fairlock.Config{})}
	first, err := ms[0].Lock(ctx, "x")
	require.NoError(t, err)
	const n = 9
	order := make(chan int, n)
	for i := range n {
		go func() {
			l, err := ms[i%3].Lock(ctx, "x", fairlock.Label(fmt.Sprint("waiter ", i)))
			if err != nil {
				t.Error(err)
				return
			}
			order <- i
			if err := l.Unlock(ctx); err != nil {
				t.Error(err)
			}
		}()
		b.awaitWaiters(ms[1], "x", i+1)
	}
	info, err := ms[2].Inspect(ctx, "x")
	require.NoError(t, err)
	require.Len(t, info.Holders, 1)
	require.Equal(t, first.Token(), info.Holders[0].Token)
	require.Equal(t, ms[0].Session(), info.Holders[0].Owner.Session)
	for i, w := range info.Waiters {
		require.Equal(t, i+1, w.Position)
		require.Equal(t, fmt.Sprint("waiter ", i), w.Owner.Label)
		require.NotEmpty(t, w.Owner.Host)
		require.NotZero(t, w.Owner.PID)
		require.Greater(t, w.Owner.LeaseLeft, 10*time.Second)
		require.GreaterOrEqual(t, w.Owner.Age, time.Duration(0))
	}
	require.NoError(t, first.Unlock(ctx))
	for i := range n {
		require.Equal(t, i, <-order)
	}
}

func TestTryLock(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m1, m2 := b.manager(fairlock.Config{}), b.manager(fairlock.Config{})
	l, err := m1.TryLock(ctx, "x")
	require.NoError(t, err)
	issued := func() int64 {
		info, err := m1.Inspect(ctx, "x")
		require.NoError(t, err)
		return info.LastToken
	}
	before := issued()
	for _, m := range []*fairlock.Manager{m1, m2} {
		_, err = m.TryLock(ctx, "x")
		require.ErrorIs(t, err, fairlock.ErrBusy)
	}
	require.Equal(t, before, issued(), "a refusal takes no number")
	require.NoError(t, l.Unlock(ctx))
	l, err = m2.TryLock(ctx, "x")
	require.NoError(t, err)
	require.Equal(t, before+1, l.Token())
	require.NoError(t, l.Unlock(ctx))
}

func TestWaitLimitAndContext(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m1, m2 := b.manager(fairlock.Config{}), b.manager(fairlock.Config{})
	l, err := m1.Lock(ctx, "x")
	require.NoError(t, err)

	_, err = m2.Lock(ctx, "x", fairlock.MaxWait(50*time.Millisecond))
	require.ErrorIs(t, err, fairlock.ErrWaitLimit)
	require.NotErrorIs(t, err, context.DeadlineExceeded)

	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = m2.Lock(short, "x")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, fairlock.ErrWaitLimit)

	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = m2.Lock(ended, "x")
	require.ErrorIs(t, err, context.Canceled)

	// The numbers given up delay nobody.
	next := make(chan error, 1)
	go func() {
		l, err := m2.Lock(ctx, "x")
		if err == nil {
			err = l.Unlock(ctx)
		}
		next <- err
	}()
	require.NoError(t, l.Unlock(ctx))
	require.NoError(t, <-next)
}

func TestUnlockIsIdempotentAndEndsTheContext(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{})
	type key struct{}
	short, cancel := context.WithCancel(context.WithValue(ctx, key{}, "v"))
	l, err := m.Lock(short, "x")
	require.NoError(t, err)
	cancel()
	require.NoError(t, l.Context().Err(), "the lock outlives the context of the call")
	require.Equal(t, "v", l.Context().Value(key{}))
	require.NoError(t, l.Err())
	require.Equal(t, "x", l.Name())
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := l.Unlock(ended); err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, l.Unlock(ctx))
	require.NoError(t, l.Unlock(ctx))
	require.ErrorIs(t, l.Context().Err(), context.Canceled)
	require.ErrorIs(t, context.Cause(l.Context()), fairlock.ErrUnlocked)
	require.ErrorIs(t, l.Err(), fairlock.ErrUnlocked)
}

func TestDo(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{TTL: shortTTL})
	boom := errors.New("boom")
	require.ErrorIs(t, m.Do(ctx, "x", func(context.Context) error { return boom }), boom)
	require.PanicsWithValue(t, "panic", func() {
		_ = m.Do(ctx, "x", func(context.Context) error { panic("panic") })
	})
	require.NoError(t, m.Do(ctx, "x", func(context.Context) error { return nil }), "the lock is free after a panic")

	// A session ended by somebody else ends fn's context, and Do says so though fn returned nil.
	err := m.Do(ctx, "x", func(held context.Context) error {
		_, err := b.coll("sessions").UpdateByID(ctx, m.Session(), bson.D{{Key: "$set", Value: bson.D{{Key: "ended", Value: true}}}})
		require.NoError(t, err)
		<-held.Done()
		var lost *fairlock.LostError
		require.ErrorAs(t, context.Cause(held), &lost)
		require.Equal(t, fairlock.LostSession, lost.Reason)
		return nil
	})
	require.ErrorIs(t, err, fairlock.ErrLost)
	// The manager goes on under a new session.
	require.NoError(t, m.Do(ctx, "x", func(context.Context) error { return nil }))
}

func TestMaxHoldAndExtend(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m1 := b.manager(fairlock.Config{Margin: 200 * time.Millisecond})
	m2 := b.manager(fairlock.Config{})
	l, err := m1.Lock(ctx, "x", fairlock.MaxHold(time.Hour))
	require.NoError(t, err)
	require.NoError(t, l.Extend(300*time.Millisecond))
	start := time.Now()
	next := make(chan *fairlock.Lock, 1)
	go func() {
		l, err := m2.Lock(ctx, "x")
		if err != nil {
			t.Error(err)
		}
		next <- l
	}()
	<-l.Context().Done()
	require.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond)
	l2 := <-next
	require.GreaterOrEqual(t, time.Since(start), 500*time.Millisecond, "the holder has Margin to stop")
	require.Greater(t, l2.Token(), l.Token())
	var lost *fairlock.LostError
	require.ErrorAs(t, l.Err(), &lost)
	require.Equal(t, fairlock.LostMaxHold, lost.Reason)
	require.ErrorIs(t, l.Extend(time.Hour), fairlock.ErrLost)
	require.ErrorIs(t, l.Unlock(ctx), fairlock.ErrLost)
	require.ErrorIs(t, l2.Extend(time.Second), fairlock.ErrNoMaxHold)
	require.ErrorIs(t, l2.Extend(-time.Second), fairlock.ErrInvalidOption)
	require.NoError(t, l2.Unlock(ctx))
	require.ErrorIs(t, l2.Extend(time.Second), fairlock.ErrUnlocked)
}

func TestCloseHandsOn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m1, m2 := b.manager(fairlock.Config{}), b.manager(fairlock.Config{})
	l, err := m1.Lock(ctx, "x")
	require.NoError(t, err)
	mine, theirs := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := m1.Lock(ctx, "x")
		mine <- err
	}()
	b.awaitWaiters(m1, "x", 1)
	go func() {
		l, err := m2.Lock(ctx, "x")
		if err == nil {
			err = l.Unlock(ctx)
		}
		theirs <- err
	}()
	b.awaitWaiters(m1, "x", 2)
	start := time.Now()
	require.NoError(t, m1.Close(ctx))
	require.ErrorIs(t, <-mine, fairlock.ErrClosed)
	require.NoError(t, <-theirs)
	require.Less(t, time.Since(start), 10*time.Second, "well below the lease")
	require.ErrorIs(t, l.Err(), fairlock.ErrLost)
	require.ErrorIs(t, l.Err(), fairlock.ErrClosed)
	require.ErrorIs(t, l.Unlock(ctx), fairlock.ErrLost)
	_, err = m1.Lock(ctx, "x")
	require.ErrorIs(t, err, fairlock.ErrClosed)
	require.NoError(t, m1.Close(ctx), "may be repeated")
	_, err = m1.Inspect(ctx, "x")
	require.NoError(t, err, "looking is possible after Close")
}

func TestNamesAndLabels(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{TicketDelay: time.Millisecond})
	for _, name := range []string{
		"a.b.c", "$x", "$$NOW", "$", ".", `"quoted" 'names'`, "日本語 ключ 🔒", "a b", "_id", "\u00e9", "e\u0301",
		strings.Repeat("n", 255), "{\"$ne\":1}",
	} {
		l, err := m.Lock(ctx, name, fairlock.Label("$x"))
		require.NoError(t, err, "%q", name)
		eventually(t, "ticket of "+name, func() bool {
			info, err := m.Inspect(ctx, name)
			require.NoError(t, err)
			require.Equal(t, name, info.Name)
			if info.Holders[0].Owner == nil {
				return false
			}
			require.Equal(t, "$x", info.Holders[0].Owner.Label)
			return true
		})
		require.NoError(t, l.Unlock(ctx))
	}
	names, err := m.List(ctx)
	require.NoError(t, err)
	require.Len(t, names, 13, "NFC and NFD are two names")
	for _, name := range []string{"", strings.Repeat("n", 256), "a\x00b", "tab\t", "line\n", "\x7f", "\u0085", "\xff", "ok\xc3"} {
		for _, call := range []func() error{
			func() error { _, err := m.Lock(ctx, name); return err },
			func() error { _, err := m.TryLock(ctx, name); return err },
			func() error { _, err := m.Inspect(ctx, name); return err },
			func() error { return m.Do(ctx, name, nil) },
			func() error { return fairlock.ValidateName(name) },
		} {
			require.ErrorIs(t, call(), fairlock.ErrInvalidName, "%q", name)
		}
	}
	_, err = m.Lock(ctx, "x", fairlock.Label("\xff"))
	require.ErrorIs(t, err, fairlock.ErrInvalidOption)
	_, err = m.Inspect(ctx, "never used")
	require.ErrorIs(t, err, fairlock.ErrNotFound)
}

func TestMismatchNamesBothShapes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	q := queue.Open(b.db, "fairlock.", true)
	_, err := q.Enqueue(ctx, "x", queue.Shape{Kind: "semaphore", Permits: 5},
		queue.Arrival{Mark: 1, Units: 1, Grace: time.Second})
	require.NoError(t, err)
	m := b.manager(fairlock.Config{})
	for _, take := range []func(context.Context, string, ...fairlock.Option) (*fairlock.Lock, error){m.Lock, m.TryLock} {
		_, err = take(ctx, "x")
		require.ErrorIs(t, err, fairlock.ErrMismatch)
		require.ErrorContains(t, err, "semaphore with 5 permits")
		require.ErrorContains(t, err, "mutex with 1 permits")
	}
	v, _, err := q.View(ctx, "x")
	require.NoError(t, err)
	require.EqualValues(t, 1, v.Issued-v.Settled, "the refused callers took no number")
	_, err = q.Settle(ctx, "x", []queue.Range{{Lo: v.Issued, Hi: v.Issued}}, 1)
	require.NoError(t, err)
}

func TestSetupIsIdempotent(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{})
	for range 2 {
		require.NoError(t, m.Setup(ctx))
	}
	for coll, want := range map[string]int{"locks": 2, "tickets": 2, "sessions": 2} {
		specs, err := b.coll(coll).Indexes().ListSpecifications(ctx)
		require.NoError(t, err)
		require.Len(t, specs, want, coll)
	}
}

func TestStandalonePolls(t *testing.T) {
	t.Parallel()
	ctx := withLimit(t)
	set := replset.ForTest(t, replset.Options{Standalone: true})
	b := newBedAt(t, set.URI())
	log := &lines{}
	m1 := b.manager(fairlock.Config{Logger: log.logger(), TTL: shortTTL})
	m2 := b.manager(fairlock.Config{TTL: shortTTL})
	h := &holds{t: t}
	var wg sync.WaitGroup
	for _, m := range []*fairlock.Manager{m1, m2} {
		for range 3 {
			wg.Go(func() { h.rounds(ctx, m, "x", 5) })
		}
	}
	wg.Wait()
	require.Equal(t, 30, h.n)
	require.Equal(t, 1, log.count("standalone"), "one warning")
	require.Positive(t, m1.Stats().GrantsByPoll+m2.Stats().GrantsByPoll)
	require.Zero(t, m1.Stats().StreamsOpened)
	require.NoError(t, m1.Close(ctx))
	require.NoError(t, m2.Close(ctx))
	b.requireQuiet()
}

func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	client := connect(t, "mongodb://127.0.0.1:1/?replicaSet=none")
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	start := time.Now()
	_, err := fairlock.New(ctx, client.Database("x"), nil)
	require.ErrorIs(t, err, fairlock.ErrServer)
	require.ErrorContains(t, err, "127.0.0.1:1")
	require.ErrorContains(t, err, "connection refused")
	require.Less(t, time.Since(start), 5*time.Second)
}
