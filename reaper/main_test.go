package reaper_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl    = 9 * time.Second
	margin = time.Second
	name   = "the lock"
)

// bed is a store, and one process's connection and clock.
type bed struct {
	t     *testing.T
	ctx   context.Context
	clk   *memstore.Clock
	ahead atomic.Int64 // of the server's clock
	srv   *memstore.Server
	*memstore.Client
}

// bubble runs a test on fake time.
func bubble(t *testing.T, f func(*bed)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, ctx: t.Context(), clk: memstore.NewClock()}
		b.srv = memstore.New(func() time.Time { return b.clk.Wall().Add(time.Duration(b.ahead.Load())) })
		b.Client = b.srv.Client()
		f(b)
	})
}

func (b *bed) reaper() *reaper.Reaper { return b.reaperWith(nil, nil) }

func (b *bed) reaperWith(targets func() []reaper.Target, sweep func(context.Context) (bool, []reaper.Target)) *reaper.Reaper {
	return reaper.New(reaper.Config{
		TTL: ttl, OpTimeout: 5 * time.Second, Clock: b.clk, Queue: b.Queue(), Sessions: b.Sessions(),
		Log: slog.New(slog.DiscardHandler), Targets: targets, Sweep: sweep,
	})
}

// begin writes a session that nobody renews.
func (b *bed) begin(id string) {
	require.NoError(b.t, b.Sessions().Begin(b.ctx, reaper.Session{ID: id, TTLMS: ttl.Milliseconds()}))
}

// enqueue takes numbers.
func (b *bed) enqueue(lock string, units int64) queue.Place {
	p, err := b.Queue().Enqueue(b.ctx, lock, queue.Mutex, queue.Arrival{Mark: mark.Add(1), Units: units, Grace: ttl})
	require.NoError(b.t, err)
	return p
}

var mark atomic.Int64

// ticket puts the ticket of a place.
func (b *bed) ticket(lock string, p queue.Place, session string) error {
	return b.Queue().PutTicket(b.ctx, ticketOf(lock, p, session), 0)
}

func ticketOf(lock string, p queue.Place, session string) queue.Ticket {
	return queue.Ticket{
		ID: queue.TicketID{Lock: lock, Lo: p.Lo}, Hi: p.Hi, Session: session, Arrival: p.Arrival, Weight: 1,
	}
}

// place takes a number, with its ticket.
func (b *bed) place(lock, session string) queue.Place {
	p := b.enqueue(lock, 1)
	require.NoError(b.t, b.ticket(lock, p, session))
	return p
}

// settled reports whether the place's numbers are settled.
func (b *bed) settled(lock string, p queue.Place) bool {
	v, found := b.srv.Lock(lock)
	require.True(b.t, found)
	return len(queue.Subtract(p.Range, append([]queue.Range{{Lo: 0, Hi: v.Settled}}, v.Done...))) == 0
}

// isEnded reports whether the session was ended.
func (b *bed) isEnded(id string) bool {
	s, found := b.srv.Session(id)
	return found && s.Ended
}

// behind is the target of somebody who waits behind a place.
func behind(p queue.Place) reaper.Target { return reaper.Target{Name: name, Below: p.Hi + 1} }

// failure is the error of a call that returns something else too.
func failure[T any](_ T, err error) error { return err }
