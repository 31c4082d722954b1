package measure

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock/queue"
)

// opLimit bounds one write.
const opLimit = 5 * time.Second

// Floor takes n samples of a document in the collection, and measures what a hand-off cannot be faster than: one majority write on one document, made by one client with nobody
// else about. idle is the time between two of them: servers that were left alone for a moment answer slower than
// busy ones, and between two hand-offs there is a hold.
func Floor(ctx context.Context, db *mongo.Database, collection string, n int, idle time.Duration) ([]time.Duration, error) {
	coll := queue.Pinned(db, collection)
	inc := func() error {
		ctx, cancel := context.WithTimeout(ctx, opLimit)
		defer cancel()
		return coll.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: "floor"}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}},
			options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Err()
	}
	if err := inc(); err != nil { // makes collection and connection
		return nil, err
	}
	tick := time.NewTimer(idle)
	defer tick.Stop()
	var all []time.Duration
	for range n {
		tick.Reset(idle)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		begin := Stamp()
		if err := inc(); err != nil {
			return nil, err
		}
		all = append(all, time.Duration(Stamp()-begin))
	}
	return all, nil
}
