package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

// Deployment is something that fairlock runs on.
type Deployment struct {
	// In runs one test on an empty database. When test has returned and all processes are closed it checks that the
	// database is quiet: no ticket, no tombstone, no session that lives, every lock document idle.
	In func(t *testing.T, test func(t *testing.T, db Database))
}

// Database is where locks are kept.
type Database interface {
	// Process starts a process, which ends with the test.
	Process(t *testing.T, cfg *fairlock.Config) *Process
}

// Process is one process, and what can happen to it.
type Process struct {
	*fairlock.Manager
	Cut  func() // no call reaches the database any more, until Heal
	Heal func()
	Kill func() // the process never does anything again
}

// Run runs the suite.
func Run(t *testing.T, d Deployment) {
	for _, group := range []struct {
		name  string
		cases []testCase
	}{
		{"Lock", lockCases}, {"Hold", holdCases}, {"Loss", lossCases}, {"Shared", sharedCases}, {"LockAll", setCases},
		{"Election", electionCases}, {"Admin", adminCases}, {"Inspect", inspectCases}, {"BadInput", inputCases},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					d.In(t, func(t *testing.T, db Database) {
						ctx, cancel := context.WithTimeout(context.Background(), limit)
						defer cancel()
						c.run(&bed{t: t, ctx: ctx, db: db})
					})
				})
			}
		})
	}
}

type testCase struct {
	name string
	run  func(*bed)
}

const (
	// limit is the time after which a test that waits has failed.
	limit = 60 * time.Second
	// shortTTL is the lease in tests that wait for one to end.
	shortTTL = 3 * time.Second
	// look is the time between two reads for something that gives no signal.
	look = 5 * time.Millisecond
)

// bed is one test.
type bed struct {
	t   *testing.T
	ctx context.Context
	db  Database
}

// process starts a process.
func (b *bed) process(set ...func(*fairlock.Config)) *Process {
	cfg := &fairlock.Config{}
	for _, f := range set {
		f(cfg)
	}
	return b.db.Process(b.t, cfg)
}

func (b *bed) processes(n int, set ...func(*fairlock.Config)) []*Process {
	all := make([]*Process, n)
	for i := range all {
		all[i] = b.process(set...)
	}
	return all
}

// short makes leases short, and tickets come at once.
func short(c *fairlock.Config) { c.TTL, c.TicketDelay = shortTTL, time.Millisecond }

// seenSoon makes tickets come at once.
func seenSoon(c *fairlock.Config) { c.TicketDelay = time.Millisecond }

// lock takes a lock that is free.
func (b *bed) lock(p *Process, name string, opts ...fairlock.Option) *fairlock.Lock {
	b.t.Helper()
	l, err := p.Lock(b.ctx, name, opts...)
	require.NoError(b.t, err)
	return l
}

// unlock gives back a lock that is held.
func (b *bed) unlock(l *fairlock.Lock) {
	b.t.Helper()
	require.NoError(b.t, l.Err())
	require.NoError(b.t, l.Unlock(b.ctx))
}

// call is a call that waits, in a goroutine of its own.
type call struct {
	b      *bed
	cancel context.CancelFunc
	done   chan struct{} // closed when it has returned
	lock   *fairlock.Lock
	err    error
}

// begin starts a call and returns when its number was issued, so that calls stand in line in the order in which they were begun.
func (b *bed) begin(p *Process, name string, f func(context.Context) (*fairlock.Lock, error)) *call {
	b.t.Helper()
	before := b.issued(p, name)
	ctx, cancel := context.WithCancel(b.ctx)
	b.t.Cleanup(cancel)
	c := &call{b: b, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.lock, c.err = f(ctx)
	}()
	b.until("a number of "+name, func() bool { return b.issued(p, name) > before })
	return c
}

// wait is begin with Lock.
func (b *bed) wait(p *Process, name string, opts ...fairlock.Option) *call {
	b.t.Helper()
	return b.begin(p, name, func(ctx context.Context) (*fairlock.Lock, error) { return p.Lock(ctx, name, opts...) })
}

// granted waits until the call has got the lock.
func (c *call) granted() *fairlock.Lock {
	c.b.t.Helper()
	<-c.done
	require.NoError(c.b.t, c.err)
	return c.lock
}

// failed waits until the call has failed.
func (c *call) failed() error {
	c.b.t.Helper()
	<-c.done
	require.Error(c.b.t, c.err)
	require.Nil(c.b.t, c.lock)
	return c.err
}

// waits requires that the call has not returned. What was issued before it is not given back yet, so it must not.
func (c *call) waits() {
	c.b.t.Helper()
	select {
	case <-c.done:
		c.b.t.Fatalf("the call has returned: %v", c.err)
	default:
	}
}

// issued is the newest number of a lock, 0 when there is no such lock.
func (b *bed) issued(p *Process, name string) int64 {
	b.t.Helper()
	info, err := p.Inspect(b.ctx, name)
	if err != nil {
		require.ErrorIs(b.t, err, fairlock.ErrNotFound)
		return 0
	}
	return info.LastToken
}

// until reads until cond is true.
func (b *bed) until(what string, cond func() bool) {
	b.t.Helper()
	every := time.NewTicker(look)
	defer every.Stop()
	for !cond() {
		select {
		case <-every.C:
		case <-b.ctx.Done():
			b.t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// seen waits until the database shows who stands behind a place. Whoever is killed before is cleared as well, but his session stays until
// somebody sweeps, and no test waits for that.
func (b *bed) seen(p *Process, name string, token int64) {
	b.t.Helper()
	b.until("the owner of a place", func() bool {
		info, err := p.Inspect(b.ctx, name)
		require.NoError(b.t, err)
		for _, at := range append(info.Holders, info.Waiters...) {
			if at.Token == token {
				return at.Owner != nil
			}
		}
		return false
	})
}

// requireLost requires a loss for a reason.
func (b *bed) requireLost(err error, why fairlock.LossReason) {
	b.t.Helper()
	require.ErrorIs(b.t, err, fairlock.ErrLost)
	var lost *fairlock.LostError
	require.ErrorAs(b.t, err, &lost)
	require.Equal(b.t, why.String(), lost.Reason.String())
}

// untouched requires that the database is as if nobody had called.
func (b *bed) untouched(p *Process) {
	b.t.Helper()
	all, err := p.List(b.ctx)
	require.NoError(b.t, err)
	require.Empty(b.t, all)
	require.Empty(b.t, p.Session(), "a session was begun")
}
