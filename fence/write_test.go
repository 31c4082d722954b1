package fence_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock/fence"
)

var upsert = options.UpdateOne().SetUpsert(true)

func id(v any) bson.D { return bson.D{{Key: "_id", Value: v}} }

func setting(field string, v any) bson.D {
	return bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: v}}}}
}

// TestFieldThatIsNoToken: what the server compares with the token and is none is an error, and not a write that is made again for ever.
func TestFieldThatIsNoToken(t *testing.T) {
	coll, end := collection("field")
	defer end()
	for name, v := range map[string]any{
		"a fraction above the token": 7.5, "no number": math.NaN(), "out of range": 1e300, "infinite": math.Inf(1), "a word": "x", "a document": bson.D{},
	} {
		_, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: name}, {Key: "fence", Value: v}})
		require.NoError(t, err)
		_, err = of(7).UpdateOne(ctx, coll, id(name), setting("v", 1))
		require.ErrorIs(t, err, fence.ErrInvalid, name)
		require.ErrorContains(t, err, "not a token", name)
	}
	_, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: "whole"}, {Key: "fence", Value: float64(9)}})
	require.NoError(t, err)
	_, err = of(7).UpdateOne(ctx, coll, id("whole"), setting("v", 1))
	require.ErrorIs(t, err, fence.ErrStale, "a token that was written by a shell, say")
}

// TestUpsertNamesIDByValue: a filter that finds nothing for an old token must not make a second document.
func TestUpsertNamesIDByValue(t *testing.T) {
	coll, end := collection("upsert")
	defer end()
	_, err := of(9).UpdateOne(ctx, coll, id("x"), setting("v", 1), upsert)
	require.NoError(t, err)
	for _, filter := range []bson.D{
		id(bson.D{{Key: "$gte", Value: "x"}, {Key: "$lte", Value: "x"}}), id(bson.D{{Key: "$in", Value: bson.A{"x"}}}), {{Key: "v", Value: 1}},
	} {
		for _, token := range []int64{7, 9} {
			_, err := of(token).UpdateOne(ctx, coll, filter, setting("v", 2), upsert)
			require.ErrorIs(t, err, fence.ErrInvalid)
		}
	}
	_, err = of(7).UpdateOne(ctx, coll, id(bson.D{{Key: "$eq", Value: "x"}}), setting("v", 2), upsert)
	require.ErrorIs(t, err, fence.ErrStale)
	_, err = of(7).UpdateOne(ctx, coll, id(bson.D{{Key: "day", Value: 1}}), setting("v", 2), upsert)
	require.NoError(t, err, "an _id may be a document")
	n, err := coll.CountDocuments(ctx, bson.D{})
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
}

// TestOtherUniqueIndex: an index that has nothing to do with the token does not make a write stale, with a session and in a transaction as without.
func TestOtherUniqueIndex(t *testing.T) {
	coll, end := collection("unique")
	defer end()
	_, err := coll.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "u", Value: 1}}, Options: options.Index().SetUnique(true).SetSparse(true)})
	require.NoError(t, err)
	_, err = of(7).UpdateOne(ctx, coll, id(1), setting("u", "taken"), upsert)
	require.NoError(t, err)
	s, err := coll.Database().Client().StartSession()
	require.NoError(t, err)
	defer s.EndSession(ctx)
	inTransaction := func(f func(context.Context) error) error {
		_, err := s.WithTransaction(ctx, func(ctx context.Context) (any, error) { return nil, f(ctx) })
		return err
	}
	inSession := func(f func(context.Context) error) error { return f(mongo.NewSessionContext(ctx, s)) }
	plainly := func(f func(context.Context) error) error { return f(ctx) }
	for name, do := range map[string]func(func(context.Context) error) error{"plainly": plainly, "in a session": inSession, "in a transaction": inTransaction} {
		err := do(func(ctx context.Context) error {
			_, err := of(7).UpdateOne(ctx, coll, id(2), setting("u", "taken"), upsert)
			return err
		})
		require.True(t, mongo.IsDuplicateKeyError(err), "%s: %v", name, err)
		require.False(t, errors.Is(err, fence.ErrStale), name)

		err = do(func(ctx context.Context) error {
			_, err := of(6).UpdateOne(ctx, coll, id(1), setting("v", 1), upsert)
			return err
		})
		require.Equal(t, &fence.StaleError{Token: 6, Seen: 7}, err, name)

		// The token is admitted, the rest of the filter finds nothing: the driver's own error.
		err = do(func(ctx context.Context) error {
			_, err := of(8).UpdateOne(ctx, coll, bson.D{{Key: "_id", Value: 1}, {Key: "u", Value: "other"}}, setting("v", 1), upsert)
			return err
		})
		require.True(t, mongo.IsDuplicateKeyError(err), "%s: %v", name, err)
		require.False(t, errors.Is(err, fence.ErrStale), name)
	}
}

// TestFilterIsReadAlike: a filter that means something by the call's options is judged with them.
func TestFilterIsReadAlike(t *testing.T) {
	coll, end := collection("options")
	defer end()
	_, err := of(9).UpdateOne(ctx, coll, id(1), setting("name", "ABC"), upsert)
	require.NoError(t, err)
	caseless := &options.Collation{Locale: "en", Strength: 1}
	byName := bson.D{{Key: "name", Value: "abc"}}
	byLet := bson.D{{Key: "$expr", Value: bson.D{{Key: "$eq", Value: bson.A{"$name", "$$n"}}}}}
	let := bson.D{{Key: "n", Value: "ABC"}}
	f := of(7)
	_, err = f.UpdateOne(ctx, coll, byName, setting("v", 1), options.UpdateOne().SetCollation(caseless))
	require.ErrorIs(t, err, fence.ErrStale)
	_, err = f.ReplaceOne(ctx, coll, byName, bson.D{}, options.Replace().SetCollation(caseless))
	require.ErrorIs(t, err, fence.ErrStale)
	_, err = f.DeleteOne(ctx, coll, byName, options.DeleteOne().SetCollation(caseless))
	require.ErrorIs(t, err, fence.ErrStale)
	_, err = f.UpdateOne(ctx, coll, byLet, setting("v", 1), options.UpdateOne().SetLet(let))
	require.ErrorIs(t, err, fence.ErrStale)
	_, err = f.DeleteOne(ctx, coll, byLet, options.DeleteOne().SetLet(let))
	require.ErrorIs(t, err, fence.ErrStale)
}
