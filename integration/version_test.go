package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock"
)

// TestNewerSchemaIsRefused: of a document that a newer fairlock has written no number is taken, and the error says why. Idle ones go back to
// work when the newer one has put them back.
func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{})
	l, err := m.Lock(ctx, "x")
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
	version := func(v int32) bson.M {
		var d bson.M
		set := bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: v}}}}
		require.NoError(t, b.coll("locks").FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: "x"}}, set).Decode(&d))
		return d
	}
	before := version(2)
	_, err = m.Lock(ctx, "x")
	require.ErrorIs(t, err, fairlock.ErrMalformed)
	require.ErrorContains(t, err, "schema version is 2, this fairlock knows 1")
	_, err = m.TryLock(ctx, "x")
	require.ErrorIs(t, err, fairlock.ErrMalformed)
	_, err = m.Inspect(ctx, "x")
	require.ErrorIs(t, err, fairlock.ErrMalformed)
	require.Equal(t, before["issued"], version(1)["issued"], "no number was taken")
	l, err = m.Lock(ctx, "x")
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
}
