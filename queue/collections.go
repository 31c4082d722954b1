package queue

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// SchemaVersion is stored in each lock document as v.
const SchemaVersion = 1

// idleDays is how long a document that nobody needs is kept: garbage collection only, so a clock
// that jumps by hours deletes nothing that is in use.
const idleDays = 24 * time.Hour

// Collections is the queue in the database: the documents of locks and tickets. It implements [Store].
type Collections struct {
	db          *mongo.Database
	locks       *mongo.Collection
	tickets     *mongo.Collection
	clusterTime bool
	passed      Passed
}

// Open returns the queue in db whose collections begin with prefix. It makes no call. clusterTime is true on a replica
// set or sharded cluster, which know $$CLUSTER_TIME.
func Open(db *mongo.Database, prefix string, clusterTime bool) *Collections {
	return &Collections{
		db:          db,
		locks:       Pinned(db, prefix+"locks"),
		tickets:     Pinned(db, prefix+"tickets"),
		clusterTime: clusterTime,
	}
}

// Pinned is a handle whose concerns and codecs are fairlock's own and never the client's or the URI's: a write at w:1
// can be rolled back after it was acknowledged, and a read from a secondary or below majority can be taken
// back, so that either could show a grant that never was. Journal is set because a server can be configured
// to acknowledge majority writes before they are on disk.
func Pinned(db *mongo.Database, name string) *mongo.Collection {
	journal := true
	return db.Collection(name, options.Collection().
		SetWriteConcern(&writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journal}).
		SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary()).
		SetBSONOptions(&options.BSONOptions{}).
		SetRegistry(bson.NewRegistry()))
}

// Report has p called for documents that are passed over. It must come before the first call.
func (c *Collections) Report(p Passed) { c.passed = p }

// Locks is the collection whose change stream wakes waiters.
func (c *Collections) Locks() *mongo.Collection { return c.locks }

// Setup makes the collections and indexes. It may be repeated. Run-time code does not need what it needs (createCollection,
// createIndex): without it the server makes the collections by itself and only garbage collection and the speed of the
// reaper suffer.
func (c *Collections) Setup(ctx context.Context) error {
	for _, ix := range []struct {
		coll *mongo.Collection
		keys bson.D
		opts *options.IndexOptionsBuilder
	}{
		{c.locks, bson.D{{Key: "idleSince", Value: 1}}, options.Index().SetExpireAfterSeconds(int32(idleDays.Seconds()))},
		{c.tickets, bson.D{{Key: "session", Value: 1}}, options.Index()},
	} {
		if err := EnsureIndex(ctx, ix.coll, ix.keys, ix.opts); err != nil {
			return err
		}
	}
	return nil
}

// EnsureIndex makes the collection and one index on it, if they are missing.
func EnsureIndex(ctx context.Context, coll *mongo.Collection, keys bson.D, opts *options.IndexOptionsBuilder) error {
	const namespaceExists = 48
	if err := coll.Database().CreateCollection(ctx, coll.Name()); err != nil && !HasCode(err, namespaceExists) {
		return fmt.Errorf("fairlock: create collection %s: %w", coll.Name(), Explain(ctx, coll, err, "createCollection"))
	}
	if _, err := coll.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: keys, Options: opts}); err != nil {
		return fmt.Errorf("fairlock: create index on %s: %w", coll.Name(), Explain(ctx, coll, err, "createIndex"))
	}
	return nil
}
