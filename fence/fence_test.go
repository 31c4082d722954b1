package fence

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func must(t *testing.T, token int64, opts ...Option) Fence {
	t.Helper()
	f, err := New(token, opts...)
	require.NoError(t, err)
	return f
}

func TestNewChecksTokenAndField(t *testing.T) {
	t.Parallel()
	for _, token := range []int64{0, -1, math.MinInt64} {
		_, err := New(token)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "must be above 0")
	}
	for _, name := range []string{"", "_id", "$x", "a.b", "a\x00", "\xff"} {
		_, err := New(1, Field(name))
		require.ErrorIs(t, err, ErrInvalid, "%q", name)
		require.ErrorContains(t, err, "must be a top-level field's name")
	}
	require.EqualValues(t, 7, must(t, 7, Field("token of x")).Token())
}

func TestUpdateForms(t *testing.T) {
	t.Parallel()
	f := must(t, 7)
	token := bson.E{Key: "fence", Value: int64(7)}
	type counts struct {
		N int32 `bson:"n"`
	}
	for name, c := range map[string]struct{ update, want any }{
		"operators": {bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: int32(1)}}}},
			bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: int32(1)}}}, {Key: "$max", Value: bson.D{token}}}},
		"what the collection is to marshal": {bson.M{"$set": counts{3}},
			bson.D{{Key: "$set", Value: counts{3}}, {Key: "$max", Value: bson.D{token}}}},
		"operators with $max": {bson.D{{Key: "$max", Value: counts{3}}},
			bson.D{{Key: "$max", Value: counts{3}}, {Key: "$set", Value: bson.D{token}}}},
		"operators with both": {bson.D{{Key: "$max", Value: counts{3}}, {Key: "$set", Value: bson.D{{Key: "v", Value: "x"}}}},
			bson.D{{Key: "$max", Value: bson.D{{Key: "n", Value: int32(3)}}}, {Key: "$set", Value: bson.D{{Key: "v", Value: "x"}, token}}}},
		"another type": {map[string]counts{"$set": {3}},
			bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: int32(3)}, token}}}},
		"a pipeline": {mongo.Pipeline{{{Key: "$unset", Value: "n"}}},
			bson.A{bson.D{{Key: "$unset", Value: "n"}}, bson.D{{Key: "$set", Value: bson.D{token}}}}},
		"a slice of documents": {[]bson.D{{{Key: "$unset", Value: "n"}}},
			bson.A{bson.D{{Key: "$unset", Value: "n"}}, bson.D{{Key: "$set", Value: bson.D{token}}}}},
		"an array": {bson.A{}, bson.A{bson.D{{Key: "$set", Value: bson.D{token}}}}},
		"a longer name": {bson.D{{Key: "$set", Value: bson.D{{Key: "fences", Value: "x"}}}},
			bson.D{{Key: "$set", Value: bson.D{{Key: "fences", Value: "x"}}}, {Key: "$max", Value: bson.D{token}}}},
	} {
		got, err := f.Update(c.update)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
}

func TestUpdatesThatCannotBeFenced(t *testing.T) {
	t.Parallel()
	f := must(t, 7)
	for name, c := range map[string]struct {
		update any
		why    string
	}{
		"nil":                     {nil, "is nil"},
		"empty":                   {bson.D{}, "is empty"},
		"not a document":          {3, "update"},
		"a whole document":        {bson.D{{Key: "n", Value: 1}}, "Replacement"},
		"an operator of a number": {bson.D{{Key: "$set", Value: 3}}, "$set is not a document"},
		"sets the field":          {bson.D{{Key: "$set", Value: bson.D{{Key: "fence", Value: 9}}}}, "touches"},
		"below the field":         {bson.D{{Key: "$inc", Value: bson.D{{Key: "fence.x", Value: 9}}}}, "touches"},
		"renames to the field":    {bson.D{{Key: "$rename", Value: bson.D{{Key: "n", Value: "fence"}}}}, "touches"},
		"renames the field":       {bson.D{{Key: "$rename", Value: bson.D{{Key: "fence", Value: "n"}}}}, "touches"},
	} {
		_, err := f.Update(c.update)
		require.ErrorIs(t, err, ErrInvalid, name)
		require.ErrorContains(t, err, c.why, name)
	}
}

func TestReplacement(t *testing.T) {
	t.Parallel()
	f := must(t, 7, Field("f"))
	got, err := f.Replacement(bson.D{{Key: "f", Value: int64(3)}, {Key: "n", Value: "x"}})
	require.NoError(t, err)
	require.Equal(t, bson.D{{Key: "n", Value: "x"}, {Key: "f", Value: int64(7)}}, got, "the token that it was read with goes")
	_, err = f.Replacement(bson.D{{Key: "$set", Value: bson.D{}}})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = f.Replacement(nil)
	require.ErrorIs(t, err, ErrInvalid)
}

func TestStaleErrorTellsTheTokens(t *testing.T) {
	t.Parallel()
	require.EqualError(t, &StaleError{Token: 3, Seen: 4}, "fairlock: stale token 3: the document was written by a later holder, with token 4")
	require.ErrorIs(t, &StaleError{}, ErrStale)
}
