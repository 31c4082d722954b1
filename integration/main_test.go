package integration

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/replset"
)

// sharedURI is the replica set that tests share.
var sharedURI string

// binDir is a folder for what tests build once.
var binDir string

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		workerMain()
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	uri, set, err := replset.FromEnvOrStart(ctx, replset.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration: no replica set:", err)
		return 1
	}
	sharedURI = uri
	if binDir, err = os.MkdirTemp("", "fairlock-integration-"); err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(binDir) }()
	code := m.Run()
	if set != nil {
		if err := set.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "integration: stop:", err)
			return 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "integration: goroutines left:", err)
		return 1
	}
	return code
}

// limit is the time after which a test that waits has failed.
const limit = 60 * time.Second

func withLimit(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// shortTTL is the lease in tests that wait for one to end.
const shortTTL = 3 * time.Second

var databases atomic.Int64

// dbName is a database of the test's own.
func dbName() string {
	return fmt.Sprintf("it_%d_%d", os.Getpid(), databases.Add(1))
}

// connect opens a client that ends with the test.
func connect(t testing.TB, uri string, more ...*options.ClientOptions) *mongo.Client {
	t.Helper()
	c, err := mongo.Connect(append([]*options.ClientOptions{options.Client().ApplyURI(uri)}, more...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Disconnect(ctx)
	})
	return c
}

// bed is a database with its own client, for one test.
type bed struct {
	t   testing.TB
	uri string
	db  *mongo.Database // for looking, not fairlock's

	killed *atomic.Bool // a process was killed; shared by all beds of a test
}

// newBed makes a database on the shared replica set. At the end of the test it must be quiet (I8).
func newBed(t testing.TB) *bed {
	b := newBedAt(t, sharedURI)
	t.Cleanup(func() {
		if !t.Failed() {
			b.requireQuiet()
		}
		_ = b.db.Drop(context.Background())
	})
	return b
}

func newBedAt(t testing.TB, uri string) *bed {
	return &bed{t: t, uri: uri, db: connect(t, uri).Database(dbName()), killed: new(atomic.Bool)}
}

// manager makes a manager with a client of its own, as another process would have. Both end with the test.
func (b *bed) manager(cfg fairlock.Config, more ...*options.ClientOptions) *fairlock.Manager {
	b.t.Helper()
	c := connect(b.t, b.uri, more...)
	m, err := fairlock.New(withLimit(b.t), c.Database(b.db.Name()), &cfg)
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := m.Close(ctx); err != nil && !b.t.Failed() {
			b.t.Errorf("Close: %v", err)
		}
	})
	return m
}

func (b *bed) coll(name string) *mongo.Collection { return b.db.Collection("fairlock." + name) }

// requireQuiet checks I8: no ticket, no tombstone, no session that is not ended, every lock document idle and without
// ranges. Whoever was killed has been ended by then; its session document stays for a day.
func (b *bed) requireQuiet() {
	b.t.Helper()
	ctx := withLimit(b.t)
	left := func(coll string, filter bson.D) []bson.M {
		cur, err := b.coll(coll).Find(ctx, filter)
		require.NoError(b.t, err)
		var all []bson.M
		require.NoError(b.t, cur.All(ctx, &all))
		return all
	}
	require.Empty(b.t, left("sessions", bson.D{{Key: "ended", Value: bson.D{{Key: "$ne", Value: true}}}}), "sessions are left")
	of := bson.E{Key: "_id", Value: bson.D{{Key: "$exists", Value: true}}}
	if b.killed.Load() {
		// It may have had the right to sweep. Who takes that next clears its number and its ticket; nobody is left here to do it.
		of.Value = bson.D{{Key: "$ne", Value: "\tsweep"}}
	}
	require.Empty(b.t, left("tickets", bson.D{{Key: "_id.lock", Value: of.Value}}), "tickets or tombstones are left")
	require.Empty(b.t, left("locks", bson.D{of, {Key: "$or", Value: bson.A{
		// A semaphore whose permits were set is kept.
		bson.D{{Key: "idleSince", Value: bson.D{{Key: "$exists", Value: false}}}, {Key: "managed", Value: bson.D{{Key: "$ne", Value: true}}}},
		bson.D{{Key: "done.0", Value: bson.D{{Key: "$exists", Value: true}}}},
		bson.D{{Key: "$expr", Value: bson.D{{Key: "$ne", Value: bson.A{"$issued", "$settled"}}}}},
	}}}), "lock documents are not idle")
}

// eventually waits for a condition on something that gives no signal: a document in the database.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !cond() {
		require.False(t, time.Now().After(deadline), "not within %v: %s", limit, what)
		time.Sleep(5 * time.Millisecond)
	}
}

// waiters waits until the database shows n tickets behind the holders of a lock.
func (b *bed) awaitWaiters(m *fairlock.Manager, name string, n int) {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("%d waiters of %q", n, name), func() bool {
		info, err := m.Inspect(withLimit(b.t), name)
		if err != nil || len(info.Waiters) != n {
			return false
		}
		for _, w := range info.Waiters {
			if w.Owner == nil {
				return false
			}
		}
		return true
	})
}

func uriWith(uri, params string) string {
	if strings.Contains(uri, "?") {
		return uri + "&" + params
	}
	return uri + "/?" + params
}

// failure is the error of a call that returns something else too.
func failure[T any](_ T, err error) error { return err }
