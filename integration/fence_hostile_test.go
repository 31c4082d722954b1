package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock/fence"
)

var setsV = bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: 1}}}}

func fenceOf(t *testing.T, token int64) fence.Fence {
	t.Helper()
	f, err := fence.New(token)
	require.NoError(t, err)
	return f
}

// TestFenceOfAnArray: a field of another type than a number admits nobody, whatever is in it.
func TestFenceOfAnArray(t *testing.T) {
	t.Parallel()
	ctx := withLimit(t)
	coll := newBed(t).db.Collection("own")
	_, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "fence", Value: bson.A{int64(3), int64(99)}}})
	require.NoError(t, err)
	_, err = fenceOf(t, 7).UpdateOne(ctx, coll, bson.D{{Key: "_id", Value: 1}}, setsV)
	require.Error(t, err)
}

// TestZeroFence: the Fence of a New whose error was not looked at writes nothing.
func TestZeroFence(t *testing.T) {
	t.Parallel()
	ctx := withLimit(t)
	coll := newBed(t).db.Collection("own")
	_, err := fenceOf(t, 9).UpdateOne(ctx, coll, bson.D{{Key: "_id", Value: 1}}, setsV, options.UpdateOne().SetUpsert(true))
	require.NoError(t, err)
	f, _ := fence.New(0)
	_, err = f.ReplaceOne(ctx, coll, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "v", Value: "unfenced"}})
	require.Error(t, err, "replaced")
}

func TestZeroFenceDelete(t *testing.T) {
	t.Parallel()
	ctx := withLimit(t)
	coll := newBed(t).db.Collection("own")
	_, err := fenceOf(t, 9).UpdateOne(ctx, coll, bson.D{{Key: "_id", Value: 1}}, setsV, options.UpdateOne().SetUpsert(true))
	require.NoError(t, err)
	f, _ := fence.New(0)
	_, err = f.DeleteOne(ctx, coll, bson.D{{Key: "_id", Value: 1}})
	require.Error(t, err, "deleted")
}

// TestFenceKeepsTheClientsOptions: the same fields are written as by the collection's own UpdateOne.
func TestFenceKeepsTheClientsOptions(t *testing.T) {
	t.Parallel()
	ctx := withLimit(t)
	db := newBed(t).db
	c := connect(t, sharedURI, options.Client().SetBSONOptions(&options.BSONOptions{UseJSONStructTags: true}))
	coll := c.Database(db.Name()).Collection("own")
	_, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}})
	require.NoError(t, err)
	type change struct {
		Paid bool `json:"isPaid"`
	}
	_, err = fenceOf(t, 7).UpdateOne(ctx, coll, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "$set", Value: change{true}}})
	require.NoError(t, err)
	n, err := coll.CountDocuments(ctx, bson.D{{Key: "isPaid", Value: true}})
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

// TestFencePositional: the positional operator finds its element through the condition.
func TestFencePositional(t *testing.T) {
	t.Parallel()
	ctx := withLimit(t)
	coll := newBed(t).db.Collection("own")
	_, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}, {Key: "a", Value: bson.A{1, 2, 3}}})
	require.NoError(t, err)
	res, err := fenceOf(t, 7).UpdateOne(ctx, coll, bson.D{{Key: "_id", Value: 1}, {Key: "a", Value: 2}}, bson.D{{Key: "$set", Value: bson.D{{Key: "a.$", Value: 9}}}})
	require.NoError(t, err)
	require.EqualValues(t, 1, res.ModifiedCount)
	var got struct{ A []int }
	require.NoError(t, coll.FindOne(ctx, bson.D{}).Decode(&got))
	require.Equal(t, []int{1, 9, 3}, got.A)
}

// TestFenceTwoSets: an update with two $set leaves the token, or is refused.
func TestFenceTwoSets(t *testing.T) {
	t.Parallel()
	ctx := withLimit(t)
	coll := newBed(t).db.Collection("own")
	_, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}})
	require.NoError(t, err)
	_, err = fenceOf(t, 7).UpdateOne(ctx, coll, bson.D{{Key: "_id", Value: 1}}, bson.D{
		{Key: "$set", Value: bson.D{{Key: "v", Value: 1}}}, {Key: "$set", Value: bson.D{{Key: "w", Value: 1}}}})
	if err == nil {
		var got bson.M
		require.NoError(t, coll.FindOne(ctx, bson.D{}).Decode(&got))
		require.EqualValues(t, 7, got["fence"], "%v", got)
	}
}
