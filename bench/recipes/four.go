package recipes

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func f(key string, v any) bson.E { return bson.E{Key: key, Value: v} }

func set(fields ...bson.E) bson.D { return bson.D{f("$set", bson.D(fields))} }

func index(ctx context.Context, coll *mongo.Collection, key string, o *options.IndexOptionsBuilder) error {
	_, err := coll.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{f(key, 1)}, Options: o})
	return err
}

// exists: the document is the lock.
var exists = recipe{
	setup: func(ctx context.Context, coll *mongo.Collection, _ string) error {
		return index(ctx, coll, "lockedAt", options.Index().SetExpireAfterSeconds(int32(lockFor.Seconds())))
	},
	try: func(ctx context.Context, coll *mongo.Collection, lock, owner string) (bool, error) {
		return inserted(coll.InsertOne(ctx, bson.D{f("_id", lock), f("lockedAt", time.Now()), f("owner", owner)}))
	},
	release: func(ctx context.Context, coll *mongo.Collection, lock, owner string) (bool, error) {
		return deleted(coll.DeleteOne(ctx, bson.D{f("_id", lock), f("owner", owner)}))
	},
}

// state: the document says whether the lock is held.
var state = recipe{
	setup: func(ctx context.Context, coll *mongo.Collection, lock string) error {
		return prepare(ctx, coll, lock, f("locked", false))
	},
	try: func(ctx context.Context, coll *mongo.Collection, lock, owner string) (bool, error) {
		now := time.Now()
		free := bson.D{f("_id", lock), f("$or", bson.A{
			bson.D{f("locked", false)}, bson.D{f("lockedAt", bson.D{f("$lt", now.Add(-lockFor))})},
		})}
		return updated(coll.UpdateOne(ctx, free, set(f("locked", true), f("lockedAt", now), f("owner", owner))))
	},
	release: func(ctx context.Context, coll *mongo.Collection, lock, owner string) (bool, error) {
		return updated(coll.UpdateOne(ctx, bson.D{f("_id", lock), f("owner", owner), f("locked", true)}, set(f("locked", false))))
	},
}

// spin: a unique key, tried a number of times.
var spin = recipe{
	setup: func(ctx context.Context, coll *mongo.Collection, _ string) error {
		return index(ctx, coll, "key", options.Index().SetUnique(true))
	},
	try: func(ctx context.Context, coll *mongo.Collection, lock, owner string) (bool, error) {
		return inserted(coll.InsertOne(ctx, bson.D{f("key", lock), f("owner", owner)}))
	},
	release: func(ctx context.Context, coll *mongo.Collection, lock, owner string) (bool, error) {
		return deleted(coll.DeleteOne(ctx, bson.D{f("key", lock), f("owner", owner)}))
	},
	most: MaxTries,
}

// modify: as state, but with an expiry of the holder's choice, in one findAndModify.
var modify = recipe{
	setup: func(ctx context.Context, coll *mongo.Collection, lock string) error {
		return prepare(ctx, coll, lock, f("isLocked", false))
	},
	try: func(ctx context.Context, coll *mongo.Collection, lock, owner string) (bool, error) {
		now := time.Now()
		free := bson.D{f("_id", lock), f("$or", bson.A{
			bson.D{f("isLocked", false)}, bson.D{f("expiresAt", bson.D{f("$lt", now)})},
		})}
		err := coll.FindOneAndUpdate(ctx, free,
			set(f("isLocked", true), f("lockedBy", owner), f("expiresAt", now.Add(expiresIn)))).Err()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return false, nil
		}
		return err == nil, err
	},
	release: func(ctx context.Context, coll *mongo.Collection, lock, owner string) (bool, error) {
		return updated(coll.UpdateOne(ctx, bson.D{f("_id", lock), f("lockedBy", owner), f("isLocked", true)},
			bson.D{f("$set", bson.D{f("isLocked", false)}), f("$unset", bson.D{f("lockedBy", ""), f("expiresAt", "")})}))
	},
}

// prepare makes the document of a lock, free.
func prepare(ctx context.Context, coll *mongo.Collection, lock string, free bson.E) error {
	_, err := coll.UpdateOne(ctx, bson.D{f("_id", lock)}, bson.D{f("$setOnInsert", bson.D{free})}, options.UpdateOne().SetUpsert(true))
	if mongo.IsDuplicateKeyError(err) {
		return nil // another contender was faster
	}
	return err
}

func inserted(_ *mongo.InsertOneResult, err error) (bool, error) {
	if mongo.IsDuplicateKeyError(err) {
		return false, nil
	}
	return err == nil, err
}

func updated(r *mongo.UpdateResult, err error) (bool, error) {
	return err == nil && r.ModifiedCount == 1, err
}

func deleted(r *mongo.DeleteResult, err error) (bool, error) {
	return err == nil && r.DeletedCount == 1, err
}
