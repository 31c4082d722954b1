package fairlock

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/naming"
	"github.com/fairlock/fairlock/internal/parts"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
	"github.com/fairlock/fairlock/waiter"
)

// minWire is the wire version of MongoDB 5.0, the first server that repeats a concurrent upsert by findAndModify itself and has
// $dateAdd and $getField.
const minWire = 13

// hello is what a server says of itself.
type hello struct {
	SetName string `bson:"setName"` // of a member of a replica set
	Msg     string `bson:"msg"`     // "isdbgrid" of a mongos
	MaxWire int    `bson:"maxWireVersion"`
}

// New returns a manager for the locks in db. It asks the deployment what it is: a replica set or sharded cluster
// of MongoDB 5.0 or newer is served by change streams; a standalone server by polling, with a warning in the log; anything
// older is refused with [ErrServer]. If the deployment cannot be reached the error says which address and why, and
// comes no later than ctx allows.
//
// The manager keeps db's client and never closes it. It sets its own write concern, read concern and read preference on
// everything, whatever client and URI say. It writes nothing until the first lock. cfg may be nil.
func New(ctx context.Context, db *mongo.Database, cfg *Config) (*Manager, error) {
	full, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if db == nil {
		return nil, invalidOption("database", "nil", "must not be nil")
	}
	if rule := naming.Database(db.Name()); rule != "" {
		return nil, invalidOption("database", quoted(db.Name()), rule)
	}
	clusterTime, err := probe(ctx, db)
	if err != nil {
		return nil, err
	}
	if !clusterTime && !full.Poll {
		full.Logger.Warn("fairlock: the server is a standalone mongod without change streams: waiters poll",
			"interval", full.PollInterval)
		full.Poll = true
	}
	q := queue.Open(db, full.Prefix, clusterTime)
	s := reaper.Open(db, full.Prefix)
	seen := &passedOver{log: full.Logger}
	q.Report(seen.note)
	s.Report(seen.note)
	m := newManager(full, parts.Parts{Clock: clock.System, Queue: q, Sessions: s, Source: waiter.Mongo{Queue: q}})
	m.passed = seen
	m.setup = func(ctx context.Context) error {
		if err := q.Setup(ctx); err != nil {
			return err
		}
		return s.Setup(ctx)
	}
	m.observing.made()
	return m, nil
}

// probe reports whether the deployment has cluster times, and so change streams, or why it cannot be used at all. The
// commands need no privilege.
func probe(ctx context.Context, db *mongo.Database) (clusterTime bool, err error) {
	var h hello
	if err := db.Client().Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&h); err != nil {
		if errors.Is(err, mongo.ErrClientDisconnected) {
			return false, fmt.Errorf("%w: the client is disconnected: %w", ErrServer, err)
		}
		return false, fmt.Errorf("%w: not reachable: %w", ErrServer, err)
	}
	return h.judge()
}

func (h hello) judge() (clusterTime bool, err error) {
	if h.MaxWire < minWire {
		return false, fmt.Errorf("%w: MongoDB 5.0 or newer is needed (wire version %d), this server speaks wire version %d",
			ErrServer, minWire, h.MaxWire)
	}
	return h.SetName != "" || h.Msg == "isdbgrid", nil
}
