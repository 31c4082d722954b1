package waiter

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock/queue"
)

// FuzzDecodeEvent: whatever bytes a stream delivers, an event that is passed on shows numbers that a lock document can have.
func FuzzDecodeEvent(f *testing.F) {
	key := bson.E{Key: "documentKey", Value: bson.D{{Key: "_id", Value: "x"}}}
	state := bson.D{{Key: "settled", Value: int64(4)}, {Key: "frontier", Value: int64(5)}, {Key: "reached", Value: int32(2)}}
	told := func(text any) bson.D {
		fields := bson.D{{Key: "frontier", Value: int64(5)}, {Key: "told", Value: text}}
		return bson.D{{Key: "operationType", Value: "update"}, key, {Key: "updateDescription", Value: bson.D{{Key: "updatedFields", Value: fields}}}}
	}
	for _, d := range []bson.D{
		told("4 5"), told("5 4"), told(5), told("4 5 6"),
		{{Key: "operationType", Value: "delete"}, key},
		{{Key: "operationType", Value: "replace"}, key, {Key: "fullDocument", Value: state}},
		{{Key: "operationType", Value: "update"}, key, {Key: "updateDescription", Value: bson.D{{Key: "updatedFields", Value: state}}}},
		{{Key: "operationType", Value: "update"}, key, {Key: "updateDescription", Value: bson.A{state}}},
	} {
		b, err := bson.Marshal(d)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, ok := decodeEvent(bson.Raw(b))
		if !ok || e.Deleted {
			return
		}
		require.True(t, 0 <= e.Settled && e.Settled < e.Frontier && e.Frontier <= queue.MostNumber)
		require.True(t, 0 <= e.Reached && e.Reached <= queue.MostNumber)
	})
}

// TestToldOfItsDocument: an event whose frontier has changed and settled has not says of which document it is, or nothing. Without that the
// frontier of a document that was made anew would admit all old numbers (I5).
func TestToldOfItsDocument(t *testing.T) {
	t.Parallel()
	decode := func(fields bson.D) (Event, bool) {
		raw, err := bson.Marshal(bson.D{
			{Key: "operationType", Value: "update"}, {Key: "documentKey", Value: bson.D{{Key: "_id", Value: "x"}}},
			{Key: "updateDescription", Value: bson.D{{Key: "updatedFields", Value: fields}}},
		})
		require.NoError(t, err)
		return decodeEvent(raw)
	}
	e, ok := decode(bson.D{{Key: "frontier", Value: int64(9)}, {Key: "told", Value: "4 9"}})
	require.True(t, ok)
	require.Equal(t, Event{Name: "x", Settled: 4, Frontier: 9}, e)
	for _, told := range []any{"9 4", "4", "", "4 9 ", "a b", "-1 9", int64(4), "4 9999999999999999999"} {
		_, ok = decode(bson.D{{Key: "frontier", Value: int64(9)}, {Key: "told", Value: told}})
		require.False(t, ok, told)
	}
	_, ok = decode(bson.D{{Key: "frontier", Value: int64(9)}})
	require.False(t, ok)
}
