package fairlock

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/waiter"
)

// Faults that reviews found in fairlock itself and that were mended before there was a test of them (docs/track-record.md).

// watched is a watcher of its own on a store, and what it said.
type watched struct {
	b     *bed
	clk   *memstore.Clock
	store *memstore.Client
	w     *waiter.Watcher
	marks int64

	mu   sync.Mutex // guards said
	said []waiter.Notice
}

// watching makes a watcher. source may wrap what it uses.
func (b *bed) watching(source func(waiter.Source) waiter.Source) *watched {
	s := &watched{b: b, clk: memstore.NewClock(), store: b.srv.Client()}
	s.w = waiter.New(waiter.Config{
		Source: source(s.store.Source()), Clock: s.clk, Log: slog.New(slog.DiscardHandler), OpTimeout: 5 * time.Second,
		Await: 3 * time.Second, Recheck: 2 * time.Second, Linger: 5 * time.Second, Poll: 100 * time.Millisecond,
		Sink: func(n waiter.Notice) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.said = append(s.said, n)
		},
	})
	b.t.Cleanup(s.w.Close)
	return s
}

func unchanged(s waiter.Source) waiter.Source { return s }

func (s *watched) arrive(name string) queue.Place {
	s.marks++
	p, err := s.store.Queue().Enqueue(s.b.ctx, name, queue.Mutex, queue.Arrival{Mark: s.marks, Units: 1})
	require.NoError(s.b.t, err)
	return p
}

func (s *watched) settle(name string, p queue.Place) {
	_, err := s.store.Queue().Settle(s.b.ctx, name, []queue.Range{p.Range}, p.Arrival)
	require.NoError(s.b.t, err)
	synctest.Wait()
}

// admitted reports whether something was said that admits a place, and where that came from.
func (s *watched) admitted(name string, p queue.Place) (from waiter.Origin, ok bool) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.said {
		if n.View.Name == name && !n.Missing && n.View.Frontier >= p.Hi {
			return n.Origin, true
		}
	}
	return 0, false
}

// end settles all places, so that the store is quiet.
func (s *watched) end(places map[string][]queue.Place) {
	s.w.Close()
	for name, of := range places {
		for _, p := range of {
			s.settle(name, p)
		}
	}
	require.Zero(s.b.t, s.store.Taps())
}

// TestScenarioDozerUnderAnOpenStream: a lock that somebody dozes for is heard of by the stream, while one is open for another lock. When
// the stream is silent about it, the re-check must not be: its time to look has passed (ddfc4e7).
func TestScenarioDozerUnderAnOpenStream(t *testing.T) {
	bubble(t, func(b *bed) {
		s := b.watching(unchanged)
		since := s.clk.Now()
		slow := []queue.Place{s.arrive("slow"), s.arrive("slow")}
		s.w.Wait("slow", since, 1, 1)
		synctest.Wait()
		require.True(b.t, s.w.Streaming())
		time.Sleep(time.Millisecond)
		since = s.clk.Now()
		fast := []queue.Place{s.arrive("fast"), s.arrive("fast")}
		s.w.Wait("fast", since, 10, 1) // far back in a queue of which nothing is known: it dozes
		require.True(b.t, s.w.Dozes("fast"))
		s.store.Deliver(func(waiter.Event) int { return 0 })
		s.settle("fast", fast[0])
		_, told := s.admitted("fast", fast[1])
		require.False(b.t, told)
		time.Sleep(longestDoze + 100*time.Millisecond)
		require.False(b.t, s.w.Dozes("fast"), "a reaper looks at a queue that stands, though nobody was told so")
		time.Sleep(4 * time.Second) // it is read at every second re-check
		from, told := s.admitted("fast", fast[1])
		require.True(b.t, told)
		require.Equal(b.t, waiter.FromRecheck, from)
		require.True(b.t, s.w.Streaming())
		s.end(map[string][]queue.Place{"slow": slow, "fast": fast[1:]})
	})
}

// closing is a source whose streams take the time of their closing's deadline.
type closing struct {
	waiter.Source
	deadlines *[]time.Duration
}

type closingOpening struct {
	waiter.Opening
	s closing
}

type closingStream struct {
	waiter.Stream
	s closing
}

func (s closing) Begin(ctx context.Context) (waiter.Opening, error) {
	o, err := s.Source.Begin(ctx)
	return closingOpening{o, s}, err
}

func (o closingOpening) Open(ctx context.Context, await time.Duration, names []string) (waiter.Stream, error) {
	st, err := o.Opening.Open(ctx, await, names)
	return closingStream{st, o.s}, err
}

func (st closingStream) Close(ctx context.Context) {
	until, ok := ctx.Deadline()
	if !ok || ctx.Err() != nil {
		panic("closed with a context that never ends, or has ended")
	}
	*st.s.deadlines = append(*st.s.deadlines, time.Until(until))
	<-ctx.Done() // the server is cut off
	st.Stream.Close(ctx)
}

// TestScenarioClosingHasADeadline: a stream is closed with a context that is alive and ends, also after an opening that failed half-way,
// and those who wait are served meanwhile (ddfc4e7).
func TestScenarioClosingHasADeadline(t *testing.T) {
	bubble(t, func(b *bed) {
		var deadlines []time.Duration
		s := b.watching(func(src waiter.Source) waiter.Source { return closing{src, &deadlines} })
		since := s.clk.Now()
		x := []queue.Place{s.arrive("x"), s.arrive("x")}
		s.store.Hook(memstore.Before, memstore.OpOpeningViews, memstore.Fail(1, memstore.ErrNoReply))
		s.w.Wait("x", since, 1, 1)
		synctest.Wait()
		require.Equal(b.t, []time.Duration{5 * time.Second}, deadlines)
		s.settle("x", x[0])
		time.Sleep(500 * time.Millisecond)
		from, told := s.admitted("x", x[1])
		require.True(b.t, told, "while the closing hangs")
		require.NotEqual(b.t, waiter.FromEvent, from)
		time.Sleep(10 * time.Second)
		require.True(b.t, s.w.Streaming())
		s.end(map[string][]queue.Place{"x": x[1:]})
		require.Equal(b.t, []time.Duration{5 * time.Second, 5 * time.Second}, deadlines)
	})
}

// TestScenarioBackOffIsForgiven: after failures in a row a stream lives long, and ends because another with a filter takes its place.
// When that one fails, it is a first failure (ddfc4e7).
func TestScenarioBackOffIsForgiven(t *testing.T) {
	bubble(t, func(b *bed) {
		s := b.watching(unchanged)
		since := s.clk.Now()
		x := []queue.Place{s.arrive("x"), s.arrive("x")}
		s.w.Wait("x", since, 1, 1)
		synctest.Wait()
		for range 5 { // until the pauses are long
			s.store.KillStreams(errors.New("stream"))
			time.Sleep(time.Second)
			for !s.w.Streaming() {
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(15 * time.Second)
		opened := s.w.Counts().StreamsOpened.Load()
		for range 250 { // of a lock that nobody waits for
			busy := []queue.Place{s.arrive("busy"), s.arrive("busy")}
			s.settle("busy", busy[0])
			s.settle("busy", busy[1])
		}
		require.Equal(b.t, opened+1, s.w.Counts().StreamsOpened.Load(), "the one with a filter")
		s.store.KillStreams(errors.New("stream"))
		synctest.Wait()
		require.Equal(b.t, opened+2, s.w.Counts().StreamsOpened.Load(), "at once")
		s.end(map[string][]queue.Place{"x": x})
	})
}

// TestScenarioTicketsInTheOrderOfSending: an arrival whose reply came late is behind a younger one in the keeper's list, and its ticket
// is due first (ddfc4e7).
func TestScenarioTicketsInTheOrderOfSending(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		b.unlock(p.lock("warm up"))
		delay := p.cfg.TicketDelay
		gate := memstore.NewGate()
		remove := p.store.Hook(memstore.After, memstore.OpEnqueue, gate.Pass)
		sent := time.Now()
		old := p.begin("old")
		<-gate.Reached()
		remove()
		time.Sleep(delay * 9 / 10)
		young := p.lock("young")
		gate.Open()
		l := old.granted()
		for _, want := range []struct {
			at      time.Duration
			tickets int
		}{{delay - 1, 0}, {delay, 1}, {delay*19/10 - 1, 1}, {delay * 19 / 10, 2}} {
			time.Sleep(want.at - time.Since(sent))
			synctest.Wait()
			require.Len(b.t, b.srv.Tickets(), want.tickets, "after %v", want.at)
		}
		b.unlock(l)
		b.unlock(young)
	})
}

// TestScenarioTicketReplyIsLost: a ticket took effect and the reply did not come. The repeat finds its own work, and takes it for no
// tombstone (e22dd11; integration has the server's side, TestScenarioTicketAttemptsTogether).
func TestScenarioTicketReplyIsLost(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		held := other.lock("x")
		var attempts atomic.Int64
		p.store.Hook(memstore.After, memstore.OpPutTicket, func(_ context.Context, name string) error {
			if name != "x" { // the right to sweep has a ticket too
				return nil
			}
			if attempts.Add(1) <= 3 {
				return memstore.ErrNoReply
			}
			return nil
		})
		a := p.begin("x")
		number := b.doc("x").Issued
		time.Sleep(3 * testTTL)
		require.EqualValues(b.t, 4, attempts.Load())
		b.unlock(held)
		l := a.granted()
		require.Equal(b.t, number, l.Token())
		require.Zero(b.t, p.Stats().Requeued)
		b.unlock(l)
		b.requireIdle("x")
	})
}

// TestScenarioRepeatedSettleProvesNothing: a settle fails, and before it is repeated the document is deleted and made anew, with another
// holder. The repeat changes nothing there, so it does not show that the number behind ours is the head (863e8ac).
func TestScenarioRepeatedSettleProvesNothing(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		b.unlock(q.lock("warm up"))
		first := p.lock("x")
		p.store.Hook(memstore.Before, memstore.OpSettle, memstore.Fail(1, memstore.ErrNoReply))
		unlocked := make(chan error, 1)
		go func() { unlocked <- first.Unlock(b.ctx) }()
		synctest.Wait()
		blind := []func(){}
		for _, op := range []memstore.Op{memstore.OpSourceViews, memstore.OpOpeningViews, memstore.OpViews, memstore.OpView, memstore.OpGone} {
			blind = append(blind, p.store.Hook(memstore.Before, op, memstore.Hang))
		}
		p.store.Deliver(func(waiter.Event) int { return 0 })
		second := p.begin("x")
		require.Equal(b.t, first.Token()+1, b.doc("x").Issued)
		time.Sleep(time.Millisecond)
		b.srv.DropLock("x")
		held := q.lock("x")
		require.Greater(b.t, held.Token(), first.Token()+1)
		<-unlocked // repeated
		require.False(b.t, second.over(), "another holds")
		for _, see := range blind {
			see()
		}
		p.store.Deliver(nil)
		time.Sleep(2 * testTTL)
		require.False(b.t, second.over())
		require.NoError(b.t, held.Err())
		b.unlock(held)
		b.unlock(second.granted())
		b.requireIdle("x")
	})
}

// TestScenarioOrderOfThosePutBack: a caller is put back because of its ticket, and then one that came after it because the document was
// deleted. They queue again in the order of their calls (863e8ac).
func TestScenarioOrderOfThosePutBack(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		held := other.lock("x")
		gate := memstore.NewGate()
		first := p.begin("x")
		number := b.doc("x").Issued
		remove := p.store.Hook(memstore.Before, memstore.OpPutTicket, gate.Pass)
		<-gate.Reached()
		remove()
		second := p.begin("x")
		time.Sleep(time.Second)
		_, err := other.store.Queue().Bury(b.ctx, "x", []queue.Range{{Lo: number, Hi: number}})
		require.NoError(b.t, err)
		// The first gets no number, until it is put back for the second time: for a moment nothing is asked for it.
		refuse := p.store.Hook(memstore.Before, memstore.OpEnqueue, memstore.Fail(1_000_000, memstore.ErrNoReply))
		gate.Open()
		synctest.Wait()
		require.EqualValues(b.t, 1, p.Stats().Requeued)
		for countClaims(p.lineOf("x"), pending) == 0 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		b.srv.DropLock("x")
		synctest.Wait()
		require.Equal(b.t, 2, countClaims(p.lineOf("x"), pending), "both, before the first is asked for again")
		refuse()
		one := first.grantedIn(time.Second)
		require.False(b.t, second.over())
		b.unlock(one)
		two := second.granted()
		require.Greater(b.t, two.Token(), one.Token())
		b.unlock(two)
		b.requireLost(held.Unlock(b.ctx), LostSettled)
		time.Sleep(2 * testTTL)
		b.requireIdle("x")
	})
}
