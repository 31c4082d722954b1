package run

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/fairlock/fairlock/bench/contend"
	"github.com/fairlock/fairlock/internal/replset"
)

// Mongo is a replica set of three on this machine.
type Mongo struct {
	set     *replset.Set
	admin   *mongo.Client
	version string
}

// StartMongo starts one. It ends when this process does, in whatever way.
func StartMongo(ctx context.Context) (*Mongo, error) {
	set, err := replset.Start(ctx, replset.Options{})
	if err != nil {
		return nil, err
	}
	m := &Mongo{set: set, version: set.Binary().Version}
	m.admin, err = mongo.Connect(options.Client().ApplyURI(set.URI()).SetMaxPoolSize(2))
	if err != nil {
		return nil, errors.Join(err, set.Stop(ctx))
	}
	return m, nil
}

// Name is "mongo".
func (m *Mongo) Name() string { return "mongo" }

// Target is the connection string.
func (m *Mongo) Target() string { return m.set.URI() }

// Version is that of the server.
func (m *Mongo) Version() string { return m.version }

// PIDs are all members.
func (m *Mongo) PIDs() (pids []int) {
	for _, member := range m.set.Members() {
		pids = append(pids, member.PID())
	}
	return pids
}

// PrimaryPID is the primary's process.
func (m *Mongo) PrimaryPID(ctx context.Context) (int, error) {
	primary, err := m.set.WaitPrimary(ctx)
	if err != nil {
		return 0, err
	}
	return primary.PID(), nil
}

// Ops are the opcounters of the primary: what clients ask for, and what secondaries ask for to replicate it (getmore, and as
// command their progress).
func (m *Mongo) Ops(ctx context.Context) (map[string]int64, error) {
	var status struct {
		Counters map[string]any `bson:"opcounters"`
	}
	if err := m.admin.Database("admin").RunCommand(ctx, bson.D{{Key: "serverStatus", Value: 1}}).Decode(&status); err != nil {
		return nil, fmt.Errorf("run: serverStatus: %w", err)
	}
	ops := map[string]int64{}
	for name, v := range status.Counters {
		switch n := v.(type) { // "deprecated" is a document
		case int64:
			ops[name] = n
		case int32:
			ops[name] = int64(n)
		default:
			continue
		}
		ops["total"] += ops[name]
	}
	return ops, nil
}

// Stop ends the set.
func (m *Mongo) Stop(ctx context.Context) error {
	return errors.Join(m.admin.Disconnect(ctx), m.set.Stop(ctx))
}

// Floor is one majority findAndModify.
func (m *Mongo) Floor(ctx context.Context) (op func(context.Context) error, end func(), err error) {
	client, err := mongo.Connect(options.Client().ApplyURI(m.Target()).SetMaxPoolSize(1))
	if err != nil {
		return nil, nil, err
	}
	journal := true
	coll := client.Database(contend.Database).Collection("floor", options.Collection().
		SetWriteConcern(&writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journal}))
	op = func(ctx context.Context) error {
		err := coll.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: 1}},
			bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}, options.FindOneAndUpdate().SetUpsert(true)).Err()
		if errors.Is(err, mongo.ErrNoDocuments) {
			err = nil // the upsert: there was nothing before it
		}
		return err
	}
	end = func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }
	if err := op(ctx); err != nil {
		end()
		return nil, nil, fmt.Errorf("run: floor: %w", err)
	}
	return op, end, nil
}
