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
	for _, d := range []bson.D{
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
		require.True(t, -1 <= e.Settled && e.Settled < e.Frontier && e.Frontier <= queue.MostNumber)
		require.True(t, 0 <= e.Reached && e.Reached <= queue.MostNumber)
	})
}
