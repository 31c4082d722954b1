package contend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
)

// Database is where contenders on MongoDB lock.
const Database = "bench"

// EnvTicketDelay sets Config.TicketDelay of fairlock contenders; unset: the default.
const EnvTicketDelay = "FAIRLOCK_BENCH_TICKET_DELAY"

// Fairlock is a manager of its own on a client of its own, with the default configuration.
func Fairlock() Kind {
	return Kind{Name: "fairlock", Server: "mongo", Open: func(ctx context.Context, target, lock string) (Locker, error) {
		return OpenFairlock(ctx, target, lock, 0, nil)
	}}
}

// Permits are those of the semaphore that is measured.
const Permits = 16

// Semaphore is Fairlock on a semaphore of Permits, of which each takes one.
func Semaphore() Kind {
	return Kind{Name: "fairlock-semaphore", Server: "mongo", Open: func(ctx context.Context, target, lock string) (Locker, error) {
		return OpenFairlock(ctx, target, lock, Permits, nil)
	}}
}

// OpenFairlock opens one, on a mutex if permits is 0 and otherwise on a semaphore. queued, if it is not nil, is called when the reply to an
// enqueue has come.
func OpenFairlock(ctx context.Context, target, lock string, permits int64, queued func()) (*Fair, error) {
	var cfg fairlock.Config
	if s := os.Getenv(EnvTicketDelay); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			return nil, fmt.Errorf("%s %q must be a duration: %w", EnvTicketDelay, s, err)
		}
		cfg.TicketDelay = d
	}
	f := &Fair{lock: lock}
	client, err := MongoClient(target, f.watch.Monitor(lock))
	if err != nil {
		return nil, err
	}
	f.client, f.watch.OnQueued = client, queued
	f.m, err = fairlock.New(ctx, client.Database(Database), &cfg)
	if err == nil && permits > 0 {
		f.sem, err = f.m.Semaphore(lock, permits)
	}
	if err != nil {
		return nil, errors.Join(err, client.Disconnect(ctx))
	}
	return f, nil
}

// MongoClient is the client of one contender: as the driver makes it, but for a pool that is small, since there are hundreds of
// them on one machine. One connection is a stream's; three are left for a write, a ticket and a renewal at one time.
func MongoClient(target string, monitor *event.CommandMonitor) (*mongo.Client, error) {
	return mongo.Connect(options.Client().ApplyURI(target).SetAppName("bench").SetMaxPoolSize(4).SetMonitor(monitor))
}

// Fair is a contender's client of fairlock. It is a [Locker] and a [Counter].
type Fair struct {
	client *mongo.Client
	m      *fairlock.Manager
	lock   string
	sem    *fairlock.Semaphore // nil: a mutex
	held   *fairlock.Lock
	watch  Commands
}

// Lock is of Locker.
func (f *Fair) Lock(ctx context.Context) (Grant, error) { return f.Take(ctx, 1) }

// Take is Lock, of a semaphore for several permits.
func (f *Fair) Take(ctx context.Context, units int64) (Grant, error) {
	f.watch.Forget()
	lock := func() (*fairlock.Lock, error) { return f.m.Lock(ctx, f.lock) }
	if f.sem != nil {
		lock = func() (*fairlock.Lock, error) { return f.sem.Acquire(ctx, units) }
	}
	l, err := lock()
	g := Grant{Queued: f.watch.Queued()}
	if err != nil {
		return g, err
	}
	f.held = l
	g.Token = l.Token()
	return g, nil
}

// Unlock is of Locker.
func (f *Fair) Unlock(ctx context.Context) error { return f.held.Unlock(ctx) }

// Count is of Counter.
func (f *Fair) Count() Totals {
	s := f.m.Stats()
	t := f.watch.Totals()
	for name, n := range map[string]int64{
		"grants": s.Grants, "lost": s.Lost, "requeued": s.Requeued, "enqueues": s.Enqueues, "settles": s.Settles,
		"tickets_written": s.TicketsWritten, "tickets_deleted": s.TicketsDeleted,
		"grants_by_event": s.GrantsByEvent, "grants_by_opening": s.GrantsByOpening,
		"grants_by_recheck": s.GrantsByRecheck, "grants_by_doze": s.GrantsByDoze, "overslept": s.Overslept, "grants_by_poll": s.GrantsByPoll,
		"streams_opened": s.StreamsOpened, "streams_failed": s.StreamsFailed, "events": s.Events, "reads": s.Reads,
		"looks": s.Looks, "sweeps": s.Sweeps,
	} {
		t.Other[name] = n
	}
	return t
}

// Manager is the manager, for other things than the one lock.
func (f *Fair) Manager() *fairlock.Manager { return f.m }

// Close is of Locker.
func (f *Fair) Close(ctx context.Context) (Totals, error) {
	err := f.m.Close(ctx)
	t := f.Count()
	return t, errors.Join(err, f.client.Disconnect(ctx))
}
