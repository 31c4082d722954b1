package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock"
)

// TestCloseLeavesNoCursor: a manager that is closed while its stream is busy leaves no cursor on the server. Of a getMore that was cancelled
// while its answer was on the way, the driver forgets the cursor (found by integration/faults, row none).
func TestCloseLeavesNoCursor(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{})
	held, err := m.Lock(ctx, "x")
	require.NoError(t, err)
	for range 20 {
		far := b.manager(fairlock.Config{})
		next := waitBehind(t, ctx, far, "x")
		eventually(t, "a stream", func() bool { return far.Stats().Streaming })
		require.NoError(t, held.Unlock(ctx))
		held = <-next
		next = waitBehind(t, ctx, m, "x")
		b.awaitWaiters(m, "x", 1)
		require.NoError(t, held.Unlock(ctx))
		// The event of that write is on its way to the stream that is being closed.
		require.NoError(t, far.Close(ctx))
		held = <-next
	}
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, m.Close(ctx))
	eventually(t, "cursors closed", func() bool { return b.operations(ctx) == 0 })
}

// operations is how many operations and idle cursors the server has on the locks collection, of those to which more applies.
func (b *bed) operations(ctx context.Context, more ...bson.E) int {
	b.t.Helper()
	cur, err := b.db.Client().Database("admin").Aggregate(ctx, mongo.Pipeline{
		{{Key: "$currentOp", Value: bson.D{{Key: "allUsers", Value: true}, {Key: "idleCursors", Value: true}}}},
		{{Key: "$match", Value: append(bson.D{{Key: "ns", Value: b.db.Name() + ".fairlock.locks"}}, more...)}},
	})
	require.NoError(b.t, err)
	var open []bson.M
	require.NoError(b.t, cur.All(ctx, &open))
	return len(open)
}
