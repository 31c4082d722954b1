package reaper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock/queue"
)

// FuzzDecodeSession: whatever bytes a server sends, the answer is an error or a session with a lease that can be waited for.
func FuzzDecodeSession(f *testing.F) {
	for _, d := range []bson.D{
		{{Key: "_id", Value: "s"}, {Key: "ended", Value: nil}},
		{{Key: "_id", Value: "s"}, {Key: "beat", Value: int64(1)}, {Key: "ttl", Value: int64(3000)}, {Key: "expiresAt", Value: time.Unix(1, 0)},
			{Key: "host", Value: "h"}, {Key: "pid", Value: 1}, {Key: "label", Value: 5}},
	} {
		b, err := bson.Marshal(d)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeSession(bson.Raw(b))
		if err != nil {
			require.ErrorIs(t, err, queue.ErrMalformed)
			return
		}
		require.NotEmpty(t, s.ID)
		if !s.Ended {
			require.True(t, s.Beat >= 0 && s.Beat <= mostBeat)
			require.True(t, s.TTL() > 0 && s.TTL() <= queue.MostLease)
		}
	})
}
