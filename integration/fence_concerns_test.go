package integration

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/fairlock/fairlock/fence"
)

// TestFenceConcerns: whatever the collection of the user is set to, a fenced write waits for a majority: a token that a failover takes back
// would refuse nobody.
func TestFenceConcerns(t *testing.T) {
	t.Parallel()
	ctx := withLimit(t)
	b := newBed(t)
	var mu sync.Mutex // guards concerns
	var concerns []string
	watch := options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		mu.Lock()
		defer mu.Unlock()
		switch e.CommandName {
		case "update", "delete":
			concerns = append(concerns, e.Command.Lookup("writeConcern", "w").String())
		}
	}})
	weak := options.Collection().SetWriteConcern(writeconcern.W1()).SetReadPreference(readpref.Nearest())
	coll := connect(t, b.uri, watch).Database(b.db.Name()).Collection("own", weak)
	f, err := fence.New(7)
	require.NoError(t, err)
	id := bson.D{{Key: "_id", Value: 1}}
	_, err = f.UpdateOne(ctx, coll, id, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: 1}}}}, options.UpdateOne().SetUpsert(true))
	require.NoError(t, err)
	_, err = f.ReplaceOne(ctx, coll, id, bson.D{{Key: "v", Value: 2}})
	require.NoError(t, err)
	_, err = f.DeleteOne(ctx, coll, id)
	require.NoError(t, err)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{`"majority"`, `"majority"`, `"majority"`}, concerns)
}
