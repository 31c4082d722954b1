package integration

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/leastrole"
	"github.com/fairlock/fairlock/internal/replset"
	"github.com/fairlock/fairlock/queue"
)

const securityPage = "../docs/security.md"

// fort is a replica set with authentication on and TLS required, on which the commands of the page were run.
type fort struct {
	t     *testing.T
	set   *replset.Set
	admin *mongo.Client
}

// TestSecurity is all that needs a replica set with authentication and TLS. One set serves all of it.
func TestSecurity(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	set, err := replset.Start(ctx, replset.Options{Secure: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, set.Stop(context.Background())) }()
	f := &fort{t: t, set: set, admin: connect(t, set.URI())}
	require.NoError(t, leastrole.Apply(ctx, f.admin, securityPage))
	t.Run("group", func(t *testing.T) { // returns when all in it have ended
		t.Run("setup", func(t *testing.T) { t.Parallel(); f.setup(t) })
		t.Run("least role", func(t *testing.T) { t.Parallel(); f.leastRole(t) })
		t.Run("refused", func(t *testing.T) { t.Parallel(); f.refused(t) })
		t.Run("stream refused", func(t *testing.T) { t.Parallel(); f.streamRefused(t) })
		t.Run("revoked", func(t *testing.T) { t.Parallel(); f.revoked(t) })
	})
}

// bed is a bed whose fairlock is user, in the database that the page is about.
func (f *fort) bed(t *testing.T, user, password string) *bed {
	b := newBedAt(t, f.set.URIFor(user, password, leastrole.Database))
	b.db = f.admin.Database(leastrole.Database)
	return b
}

func (f *fort) run(t *testing.T, cmd bson.D) {
	t.Helper()
	require.NoError(t, f.admin.Database(leastrole.Database).RunCommand(withLimit(t), cmd).Err(), "%v", cmd)
}

// setup is done by its own user, who can do nothing else, and not by the one who locks.
func (f *fort) setup(t *testing.T) {
	m := f.bed(t, leastrole.SetupUser, leastrole.SetupPassword).manager(fairlock.Config{})
	for range 2 {
		require.NoError(t, m.Setup(withLimit(t)))
	}
	_, err := m.Lock(withLimit(t), "x")
	requirePrivilege(t, err, "app.fairlock.sessions", "insert", "update")
	_, err = m.List(withLimit(t))
	requirePrivilege(t, err, "app.fairlock.locks", "find")

	err = f.bed(t, leastrole.User, leastrole.Password).manager(fairlock.Config{}).Setup(withLimit(t))
	require.ErrorIs(t, err, fairlock.ErrPrivilege)

	for _, args := range [][]string{{"setup"}, {"run", "by the command", "--", "true"}} {
		uri := f.set.URIFor(leastrole.SetupUser, leastrole.SetupPassword, leastrole.Database)
		if args[0] == "run" {
			uri = f.set.URIFor(leastrole.User, leastrole.Password, leastrole.Database)
		}
		cmd := exec.CommandContext(withLimit(t), "go", append([]string{"run", "../cmd/fairlock", "--uri", uri, "--db", leastrole.Database}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
	}
}

func requirePrivilege(t *testing.T, err error, namespace string, missing ...string) {
	t.Helper()
	var p *queue.PrivilegeError
	require.ErrorIs(t, err, fairlock.ErrPrivilege)
	require.True(t, errors.As(err, &p))
	require.Equal(t, namespace, p.Namespace)
	require.ElementsMatch(t, missing, p.Missing)
	require.ErrorContains(t, err, strings.Join(p.Missing, ", ")+" on "+namespace)
	require.True(t, queue.HasCode(err, 13), "the server's error is behind it")
	require.NotContains(t, err.Error(), "command {", "which quotes the command with all its values")
}

// leastRole: all that fairlock does, with the least role, over TLS, and nothing in the log.
func (f *fort) leastRole(t *testing.T) {
	ctx := withLimit(t)
	b := f.bed(t, leastrole.User, leastrole.Password)
	var log lines
	cfg := fairlock.Config{TTL: shortTTL, Logger: log.logger()}
	one, two := b.manager(cfg), b.manager(cfg)

	held, err := one.Lock(ctx, "least", fairlock.Label("$secret.x"))
	require.NoError(t, err)
	_, err = two.TryLock(ctx, "least")
	require.ErrorIs(t, err, fairlock.ErrBusy)
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			return two.Do(ctx, "least", func(context.Context) error { return nil })
		})
	}
	b.awaitWaiters(one, "least", 4)
	list, err := one.List(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, list)
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, g.Wait())
	require.Positive(t, two.Stats().StreamsOpened)
	require.Zero(t, two.Stats().StreamsFailed)

	var g2 errgroup.Group
	for i := range 60 {
		g2.Go(func() error {
			m := []*fairlock.Manager{one, two}[i%2]
			return m.Do(ctx, fmt.Sprint("least ", i%3), func(context.Context) error { return nil })
		})
	}
	require.NoError(t, g2.Wait())

	// A process that dies with a lock held is cleared, and so is what nobody waits for, by the sweep.
	dead := b.die("least dead", cfg)
	l, err := two.Lock(ctx, "least dead")
	require.NoError(t, err)
	require.Greater(t, l.Token(), dead)
	require.NoError(t, l.Unlock(ctx))
	b.die("least swept", cfg)
	eventually(t, "the sweep clears the dead", func() bool {
		info, err := one.Inspect(ctx, "least swept")
		return err == nil && len(info.Holders) == 0
	})
	require.Positive(t, one.Stats().Sweeps+two.Stats().Sweeps)
	require.Zero(t, log.count("privilege"), log.buf.String())
}

// die leaves a lock as a process does that was killed: held, with a ticket, under a session that nobody renews.
func (b *bed) die(name string, cfg fairlock.Config) int64 {
	b.t.Helper()
	ctx := withLimit(b.t)
	c := connect(b.t, b.uri)
	m, err := fairlock.New(ctx, c.Database(b.db.Name()), &cfg)
	require.NoError(b.t, err)
	l, err := m.Lock(ctx, name)
	require.NoError(b.t, err)
	eventually(b.t, "a ticket", func() bool { return m.Stats().TicketsWritten > 0 })
	require.NoError(b.t, c.Disconnect(ctx))
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = m.Close(ctx)
	})
	return l.Token()
}

// grantable is all of the role.
var grantable = map[string][]string{
	"locks":    {"find", "insert", "update", "remove", "changeStream"},
	"tickets":  {"find", "insert", "update", "remove"},
	"sessions": {"find", "insert", "update", "remove"},
}

func privileges(prefix, withoutColl, withoutAction string) bson.A {
	var all bson.A
	for coll, actions := range grantable {
		var has bson.A
		for _, a := range actions {
			if coll != withoutColl || a != withoutAction {
				has = append(has, a)
			}
		}
		all = append(all, bson.D{
			{Key: "resource", Value: bson.D{{Key: "db", Value: leastrole.Database}, {Key: "collection", Value: prefix + coll}}},
			{Key: "actions", Value: has},
		})
	}
	return all
}

// tenant makes a prefix, a role for it and a user of it.
func (f *fort) tenant(t *testing.T, prefix string, privileges bson.A) *bed {
	user := strings.TrimSuffix(prefix, ".")
	f.run(t, bson.D{{Key: "createRole", Value: user}, {Key: "privileges", Value: privileges}, {Key: "roles", Value: bson.A{}}})
	f.run(t, bson.D{{Key: "createUser", Value: user}, {Key: "pwd", Value: "p"}, {Key: "roles", Value: bson.A{user}}})
	return f.bed(t, user, "p")
}

// refused takes each privilege away in turn. Something fails with an error, or says in the log, which privilege that is; and
// nothing hangs.
func (f *fort) refused(t *testing.T) {
	for coll, actions := range grantable {
		for _, action := range actions {
			if action == "changeStream" {
				continue
			}
			t.Run(action+" on "+coll, func(t *testing.T) {
				t.Parallel()
				f.without(t, coll, action)
			})
		}
	}
}

func (f *fort) without(t *testing.T, coll, action string) {
	ctx := withLimit(t)
	prefix := "no" + action + coll + "."
	b := f.tenant(t, prefix, privileges(prefix, coll, action))
	ns := leastrole.Database + "." + prefix + coll
	var log lines
	cfg := fairlock.Config{TTL: shortTTL, Prefix: prefix, Logger: log.logger(), TicketDelay: 50 * time.Millisecond}
	c := connect(t, b.uri)
	m, err := fairlock.New(ctx, c.Database(leastrole.Database), &cfg)
	require.NoError(t, err)
	closed := false
	t.Cleanup(func() {
		if !closed {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			_ = m.Close(ctx)
		}
	})
	logged := func() {
		t.Helper()
		eventually(t, "the log names "+action+" on "+ns, func() bool { return log.count(action+" on "+ns) > 0 })
		require.LessOrEqual(t, log.count(action+" on "+ns), 8, "and does not repeat itself: %s", log.buf.String())
	}
	lock, err := m.Lock(ctx, "x")
	switch coll + " " + action {
	case "locks find", "locks insert", "locks update", "sessions insert", "sessions update":
		requirePrivilege(t, err, ns, action)
		_, err = m.TryLock(ctx, "x")
		requirePrivilege(t, err, ns, action)
		return
	}
	require.NoError(t, err)
	switch coll + " " + action {
	case "locks remove":
		// Only old documents are not collected, where no index does it.
		require.NoError(t, lock.Unlock(ctx))
		logged()
		return
	case "tickets insert", "tickets update":
		// Who holds goes on as long as it can be sure; who waits is told.
		_, err := m.Lock(ctx, "x")
		requirePrivilege(t, err, ns, action)
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Unlock(ctx))
		return
	}
	switch coll + " " + action {
	case "tickets find", "sessions find":
		eventually(t, "a ticket", func() bool { return m.Stats().TicketsWritten > 0 })
		_, err = m.Inspect(ctx, "x")
		requirePrivilege(t, err, ns, action)
		waited := make(chan error, 1)
		go func() {
			other := b.manager(cfg)
			waited <- other.Do(ctx, "x", func(context.Context) error { return nil })
		}()
		logged() // by the reaper of the one that waits
		require.NoError(t, lock.Unlock(ctx))
		require.NoError(t, <-waited)
		return
	case "tickets remove":
		eventually(t, "a ticket", func() bool { return m.Stats().TicketsWritten > 0 })
		require.NoError(t, lock.Unlock(ctx))
		logged()
		return
	case "sessions remove":
		require.NoError(t, lock.Unlock(ctx))
		closed = true
		requirePrivilege(t, m.Close(ctx), ns, action)
		return
	}
	t.Fatal("no expectation")
}

// streamRefused: without changeStream waiters poll, and the log says so once.
func (f *fort) streamRefused(t *testing.T) {
	ctx := withLimit(t)
	const prefix = "nostream."
	b := f.tenant(t, prefix, privileges(prefix, "locks", "changeStream"))
	var log lines
	m, other := b.manager(fairlock.Config{Prefix: prefix, Logger: log.logger()}), b.manager(fairlock.Config{Prefix: prefix})
	for range 3 {
		held, err := other.Lock(ctx, "x")
		require.NoError(t, err)
		waited := make(chan error, 1)
		go func() { waited <- m.Do(ctx, "x", func(context.Context) error { return nil }) }()
		eventually(t, "a waiter that polls", func() bool {
			info, err := other.Inspect(ctx, "x")
			return err == nil && len(info.Waiters) == 1 && m.Stats().Reads > 2
		})
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, <-waited)
	}
	require.Zero(t, m.Stats().StreamsOpened)
	require.Equal(t, 1, log.count("polling instead"), log.buf.String())
	require.Equal(t, 1, log.count("changeStream on app.nostream.locks"), log.buf.String())
}

// revoked takes the role away while a lock is held and waited for, and gives it back: the holder ends by its lease, the waiter is told
// why, a newcomer at once, and when the role is back all goes on.
func (f *fort) revoked(t *testing.T) {
	ctx := withLimit(t)
	const prefix = "revoked."
	b := f.tenant(t, prefix, privileges(prefix, "", ""))
	var log lines
	cfg := fairlock.Config{TTL: shortTTL, Prefix: prefix, Logger: log.logger()}
	m, other := b.manager(cfg), b.manager(cfg)
	held, err := m.Lock(ctx, "x")
	require.NoError(t, err)
	free, err := m.Lock(ctx, "y")
	require.NoError(t, err)
	waited := make(chan error, 1)
	go func() {
		_, err := other.Lock(ctx, "x")
		waited <- err
	}()
	eventually(t, "a waiter", func() bool {
		info, err := m.Inspect(ctx, "x")
		return err == nil && len(info.Waiters) == 1
	})
	user := strings.TrimSuffix(prefix, ".")
	f.run(t, bson.D{{Key: "revokeRolesFromUser", Value: user}, {Key: "roles", Value: bson.A{user}}})

	_, err = m.Lock(ctx, "z")
	require.ErrorIs(t, err, fairlock.ErrPrivilege)
	require.ErrorIs(t, free.Unlock(ctx), fairlock.ErrPrivilege, "not given back yet, and not waited for")
	require.ErrorIs(t, <-waited, fairlock.ErrPrivilege)
	eventually(t, "the holder ends by its lease", func() bool { return held.Err() != nil })
	require.ErrorIs(t, held.Err(), fairlock.ErrLost)

	f.run(t, bson.D{{Key: "grantRolesToUser", Value: user}, {Key: "roles", Value: bson.A{user}}})
	for _, name := range []string{"x", "y", "z"} {
		eventually(t, name+" again", func() bool {
			err := other.Do(ctx, name, func(context.Context) error { return nil })
			return err == nil || !errors.Is(err, fairlock.ErrPrivilege) && !errors.Is(err, fairlock.ErrLost)
		})
	}
	require.NoError(t, m.Do(ctx, "z", func(context.Context) error { return nil }))
}
