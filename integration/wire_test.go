package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
)

// wire counts the commands of one client, and calls on when one starts or has ended.
type wire struct {
	mu      sync.Mutex // guards all below
	counts  map[string]int
	pending int
	most    int
	on      func(stage, command, coll string)
}

func newWire() *wire { return &wire{counts: map[string]int{}} }

func (w *wire) options() *options.ClientOptions {
	colls := sync.Map{}
	end := func(e event.CommandFinishedEvent) {
		coll, _ := colls.LoadAndDelete(e.RequestID)
		w.note("ended", e.CommandName, coll.(string))
	}
	return options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			coll, _ := e.Command.Lookup(e.CommandName).StringValueOK()
			if e.CommandName == "getMore" {
				coll, _ = e.Command.Lookup("collection").StringValueOK()
			}
			colls.Store(e.RequestID, coll)
			w.note("started", e.CommandName, coll)
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) { end(e.CommandFinishedEvent) },
		Failed:    func(_ context.Context, e *event.CommandFailedEvent) { end(e.CommandFinishedEvent) },
	})
}

func (w *wire) note(stage, command, coll string) {
	w.mu.Lock()
	if stage == "started" {
		w.counts[command]++
		w.pending++
		w.most = max(w.most, w.pending)
	} else {
		w.pending--
	}
	on := w.on
	w.mu.Unlock()
	if on != nil {
		on(stage, command, coll)
	}
}

// take returns the counts so far and begins anew.
func (w *wire) take() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.counts
	w.counts = map[string]int{}
	w.most = w.pending
	return was
}

func (w *wire) set(on func(stage, command, coll string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on = on
}

// TestUncontendedPairIsTwoWrites: a findAndModify, an update, and nothing else.
func TestUncontendedPairIsTwoWrites(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	w := newWire()
	// The lease is long, so that its renewal does not fall into the count.
	m := b.manager(fairlock.Config{TTL: time.Hour, TicketDelay: time.Second}, w.options())
	pair := func() {
		l, err := m.Lock(ctx, "x")
		require.NoError(t, err)
		require.NoError(t, l.Unlock(ctx))
	}
	pair() // begins the session
	w.take()
	for range 20 {
		pair()
		require.Equal(t, map[string]int{"findAndModify": 1, "update": 1}, w.take())
	}
	l, err := m.TryLock(ctx, "x")
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
	require.Equal(t, map[string]int{"findAndModify": 1, "update": 1}, w.take())
}

// TestTenThousandWaitersAreQuiet: the cost of blocked callers does not grow with their number.
func TestTenThousandWaitersAreQuiet(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	w := newWire()
	m := b.manager(fairlock.Config{}, w.options())
	other := b.manager(fairlock.Config{})
	held, err := other.Lock(ctx, "x")
	require.NoError(t, err)
	const n = 10_000
	wait, giveUp := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			_, err := m.Lock(wait, "x")
			if err == nil {
				t.Error("granted while another holds")
			}
		})
	}
	eventually(t, "all have numbers", func() bool {
		info, err := m.Inspect(ctx, "x")
		return err == nil && info.LastToken-held.Token() == n
	})
	eventually(t, "stream open and all tickets written", func() bool {
		s := m.Stats()
		return s.Streaming && s.TicketsWritten == s.Enqueues
	})
	w.take()
	const window = 6 * time.Second
	time.Sleep(window)
	counts := w.take()
	total := 0
	for _, c := range counts {
		total += c
	}
	t.Logf("%d goroutines blocked for %v: %v", n, window, counts)
	require.LessOrEqual(t, total, int(2*window.Seconds()), "at most 2 operations per second: %v", counts)
	w.mu.Lock()
	most := w.most
	w.mu.Unlock()
	require.LessOrEqual(t, most, 4, "driver calls pending at one time")
	giveUp()
	wg.Wait()
	require.NoError(t, held.Unlock(ctx))
	l, err := other.Lock(ctx, "x")
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
	require.NoError(t, m.Close(ctx))
	require.NoError(t, other.Close(ctx))
	b.requireQuiet()
}

// TestCancelAtEveryStep cancels a call of Lock at each command that goes over the wire on its behalf, when it starts and when it
// has ended, with the lock free and with it held. The queue goes on and nothing is left (newBed checks).
func TestCancelAtEveryStep(t *testing.T) {
	t.Parallel()
	type step struct{ stage, command, coll string }
	for _, busy := range []bool{false, true} {
		var steps []step
		for _, stage := range []string{"started", "ended"} {
			steps = append(steps, step{stage, "update", "sessions"}, step{stage, "findAndModify", "locks"})
			if busy {
				steps = append(steps, step{stage, "update", "tickets"}, step{stage, "aggregate", "locks"}, step{stage, "find", "locks"})
			}
		}
		for _, s := range steps {
			t.Run(fmt.Sprintf("busy=%v/%s %s %s", busy, s.coll, s.command, s.stage), func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				ctx := withLimit(t)
				other := b.manager(fairlock.Config{})
				var held *fairlock.Lock
				if busy {
					var err error
					held, err = other.Lock(ctx, "x")
					require.NoError(t, err)
				}
				w := newWire()
				m := b.manager(fairlock.Config{TicketDelay: 20 * time.Millisecond}, w.options())
				call, cancel := context.WithCancel(ctx)
				defer cancel()
				reached := make(chan struct{})
				var once sync.Once
				w.set(func(stage, command, coll string) {
					if stage == s.stage && command == s.command && coll == "fairlock."+s.coll {
						cancel()
						once.Do(func() { close(reached) })
					}
				})
				l, err := m.Lock(call, "x")
				if err == nil {
					// The grant may win the race with the cancellation; then it is a grant.
					require.False(t, busy)
					require.NoError(t, l.Unlock(ctx))
				} else {
					require.ErrorIs(t, err, context.Canceled)
				}
				<-reached
				w.set(nil)
				// A call that comes after passes as soon as the holder leaves.
				next := waitBehind(t, ctx, other, "x")
				if busy {
					require.NoError(t, held.Unlock(ctx))
				}
				l = <-next
				require.NoError(t, l.Unlock(ctx))
			})
		}
	}
}

// TestCancelledCrowd cancels many callers at random moments while others go on.
func TestCancelledCrowd(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	h := &holds{t: t}
	var wg sync.WaitGroup
	for range 3 {
		m := b.manager(fairlock.Config{TicketDelay: 5 * time.Millisecond})
		for g := range 8 {
			wg.Go(func() {
				for i := range 20 {
					call, cancel := context.WithTimeout(ctx, limit)
					if (g+i)%2 == 0 {
						call, cancel = context.WithTimeout(ctx, time.Duration(i%10)*2*time.Millisecond)
					}
					l, err := m.Lock(call, "x")
					if err == nil {
						h.enter(l.Token())
						h.leave()
						err = l.Unlock(ctx)
					} else if call.Err() != nil {
						err = nil
					}
					cancel()
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	require.GreaterOrEqual(t, h.n, 3*8*20/2)
}

// TestOddClient gives managers a client whose own settings would break them.
func TestOddClient(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.uri = uriWith(b.uri, "w=1&journal=false&readPreference=secondaryPreferred&readConcernLevel=local&retryWrites=false")
	ctx := withLimit(t)
	odd := options.Client().SetTimeout(3 * time.Second).
		SetBSONOptions(&options.BSONOptions{UseJSONStructTags: true, OmitEmpty: true, IntMinSize: true})
	var mu sync.Mutex
	var concerns []string
	spy := options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		mu.Lock()
		defer mu.Unlock()
		switch e.CommandName {
		case "update", "findAndModify", "delete", "insert":
			concerns = append(concerns, e.CommandName+" "+e.Command.Lookup("writeConcern").String())
		case "find":
			concerns = append(concerns, e.CommandName+" "+e.Command.Lookup("readConcern", "level").StringValue())
		}
	}})
	m1, m2 := b.manager(fairlock.Config{TicketDelay: time.Millisecond}, odd, spy), b.manager(fairlock.Config{}, odd)
	require.NoError(t, m1.Setup(ctx))
	h := &holds{t: t}
	var wg sync.WaitGroup
	for _, m := range []*fairlock.Manager{m1, m2} {
		for range 3 {
			wg.Go(func() { h.rounds(ctx, m, "x", 10) })
		}
	}
	wg.Wait()
	// An idle wait longer than the client's timeout: the stream survives it.
	held, err := m2.Lock(ctx, "y")
	require.NoError(t, err)
	next := waitBehind(t, ctx, m1, "y")
	eventually(t, "stream open", func() bool { return m1.Stats().Streaming })
	opened := m1.Stats().StreamsOpened
	time.Sleep(4 * time.Second)
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, (<-next).Unlock(ctx))
	require.Equal(t, opened, m1.Stats().StreamsOpened)
	require.Zero(t, m1.Stats().StreamsFailed)
	require.NoError(t, m1.Close(ctx))

	mu.Lock()
	defer mu.Unlock()
	slices.Sort(concerns)
	for _, c := range slices.Compact(concerns) {
		require.Contains(t, []string{
			`update {"w": "majority","j": true}`, `findAndModify {"w": "majority","j": true}`,
			`delete {"w": "majority","j": true}`, `find majority`,
		}, c)
	}
}

// TestPoolOfOne: with a pool of one connection a blocked Lock leaves it free for others.
func TestPoolOfOne(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	one := options.Client().SetMaxPoolSize(1)
	m := b.manager(fairlock.Config{}, one)
	other := b.manager(fairlock.Config{})
	held, err := other.Lock(ctx, "x")
	require.NoError(t, err)
	next := waitBehind(t, ctx, m, "x")
	b.awaitWaiters(other, "x", 1)
	// Another lock through the same single connection while the stream of the first wait uses it most of the time.
	require.NoError(t, m.Do(ctx, "y", func(context.Context) error { return nil }))
	// The stream notices that it starves the rest, and gives way to polling.
	eventually(t, "no stream", func() bool { return !m.Stats().Streaming && m.Stats().StreamsFailed == 1 })
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, (<-next).Unlock(ctx))
	require.EqualValues(t, 1, m.Stats().GrantsByPoll)
}
