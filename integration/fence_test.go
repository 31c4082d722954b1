package integration

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock/fence"
)

// fenced is a way to write v into the document 1.
type fenced func(ctx context.Context, f fence.Fence, coll *mongo.Collection, v string) error

var fencedWrites = map[string]fenced{
	"update": func(ctx context.Context, f fence.Fence, coll *mongo.Collection, v string) error {
		_, err := f.UpdateOne(ctx, coll, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: v}}}})
		return err
	},
	"upsert": func(ctx context.Context, f fence.Fence, coll *mongo.Collection, v string) error {
		_, err := f.UpdateOne(ctx, coll, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: v}}}},
			options.UpdateOne().SetUpsert(true))
		return err
	},
	"pipeline": func(ctx context.Context, f fence.Fence, coll *mongo.Collection, v string) error {
		_, err := f.UpdateOne(ctx, coll, bson.D{{Key: "_id", Value: 1}},
			mongo.Pipeline{{{Key: "$set", Value: bson.D{{Key: "v", Value: bson.D{{Key: "$literal", Value: v}}}}}}})
		return err
	},
	"replace": func(ctx context.Context, f fence.Fence, coll *mongo.Collection, v string) error {
		_, err := f.ReplaceOne(ctx, coll, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "v", Value: v}})
		return err
	},
	"replace with upsert": func(ctx context.Context, f fence.Fence, coll *mongo.Collection, v string) error {
		_, err := f.ReplaceOne(ctx, coll, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "v", Value: v}}, options.Replace().SetUpsert(true))
		return err
	},
}

// inTransaction makes a write one of a transaction that also writes elsewhere.
func inTransaction(w fenced) fenced {
	return func(ctx context.Context, f fence.Fence, coll *mongo.Collection, v string) error {
		s, err := coll.Database().Client().StartSession()
		if err != nil {
			return err
		}
		defer s.EndSession(ctx)
		_, err = s.WithTransaction(ctx, func(ctx context.Context) (any, error) {
			_, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: "log"}}, bson.D{{Key: "$push", Value: bson.D{{Key: "v", Value: v}}}})
			if err != nil {
				return nil, err
			}
			return nil, w(ctx, f, coll, v)
		})
		return err
	}
}

func TestFenceRefusesOlderTokens(t *testing.T) {
	t.Parallel()
	for name, w := range fencedWrites {
		for _, in := range []struct {
			name string
			w    fenced
		}{{name, w}, {name + " in a transaction", inTransaction(w)}} {
			t.Run(in.name, func(t *testing.T) {
				t.Parallel()
				ctx := withLimit(t)
				coll := newBed(t).db.Collection("own")
				_, err := coll.InsertMany(ctx, []any{bson.D{{Key: "_id", Value: 1}, {Key: "v", Value: "none"}}, bson.D{{Key: "_id", Value: "log"}}})
				require.NoError(t, err)
				of := func(token int64) fence.Fence {
					f, err := fence.New(token)
					require.NoError(t, err)
					return f
				}
				require.NoError(t, in.w(ctx, of(5), coll, "five"), "a document without a token")
				require.NoError(t, in.w(ctx, of(5), coll, "five again"))
				require.NoError(t, in.w(ctx, of(8), coll, "eight"))
				err = in.w(ctx, of(7), coll, "seven")
				require.ErrorIs(t, err, fence.ErrStale)
				var stale *fence.StaleError
				require.ErrorAs(t, err, &stale)
				require.EqualValues(t, 7, stale.Token)
				var d struct {
					V     any
					Fence int64
				}
				require.NoError(t, coll.FindOne(ctx, bson.D{{Key: "_id", Value: 1}}).Decode(&d))
				require.Equal(t, "eight", d.V)
				require.EqualValues(t, 8, d.Fence)
				require.NoError(t, coll.FindOne(ctx, bson.D{{Key: "_id", Value: "log"}}).Decode(&d))
				require.NotContains(t, d.V, "seven", "the transaction was aborted")
			})
		}
	}
}

func TestFenceEdges(t *testing.T) {
	t.Parallel()
	ctx := withLimit(t)
	coll := newBed(t).db.Collection("own")
	f, err := fence.New(7)
	require.NoError(t, err)
	set := bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: 1}}}}
	id := func(id int) bson.D { return bson.D{{Key: "_id", Value: id}} }

	res, err := f.UpdateOne(ctx, coll, id(1), set)
	require.NoError(t, err, "nothing there is no staleness")
	require.Zero(t, res.MatchedCount)
	res, err = f.UpdateOne(ctx, coll, id(1), set, options.UpdateOne().SetUpsert(true))
	require.NoError(t, err)
	require.EqualValues(t, 1, res.UpsertedCount)
	_, err = f.UpdateOne(ctx, coll, bson.D{{Key: "v", Value: 1}}, set, options.UpdateOne().SetUpsert(true))
	require.ErrorIs(t, err, fence.ErrInvalid, "an upsert by another field could make a second document")

	_, err = coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 2}, {Key: "fence", Value: "a word"}})
	require.NoError(t, err)
	_, err = f.UpdateOne(ctx, coll, id(2), set)
	require.ErrorIs(t, err, fence.ErrInvalid)
	require.ErrorContains(t, err, "string")

	old, err := fence.New(6)
	require.NoError(t, err)
	_, err = old.DeleteOne(ctx, coll, id(1))
	require.ErrorIs(t, err, fence.ErrStale)
	gone, err := f.DeleteOne(ctx, coll, id(1))
	require.NoError(t, err)
	require.EqualValues(t, 1, gone.DeletedCount)
	gone, err = f.DeleteOne(ctx, coll, id(1))
	require.NoError(t, err)
	require.Zero(t, gone.DeletedCount)

	// A unique index that has nothing to do with the token.
	_, err = coll.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "u", Value: 1}}, Options: options.Index().SetUnique(true).SetSparse(true)})
	require.NoError(t, err)
	unique := bson.D{{Key: "$set", Value: bson.D{{Key: "u", Value: 1}}}}
	for _, n := range []int{3, 4} {
		_, err = f.UpdateOne(ctx, coll, id(n), unique, options.UpdateOne().SetUpsert(true))
	}
	require.True(t, mongo.IsDuplicateKeyError(err), "%v", err)
	require.False(t, errors.Is(err, fence.ErrStale))
}
