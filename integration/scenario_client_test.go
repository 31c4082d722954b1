package integration

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
)

// TestScenarioSecondaryPreferredClient: the client reads from secondaries and writes without a majority by its own settings. On the wire,
// all that decides goes to the primary, with fairlock's concerns.
func TestScenarioSecondaryPreferredClient(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.uri = uriWith(b.uri, "w=1&readPreference=secondaryPreferred&readConcernLevel=local")
	ctx := withLimit(t)
	var hello struct{ Primary string }
	require.NoError(t, b.db.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello))
	var mu sync.Mutex // guards both
	seen := map[string]bool{}
	var wrong []string
	spy := options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if coll, _ := e.Command.Lookup(e.CommandName).StringValueOK(); !strings.HasPrefix(coll, "fairlock.") {
			return // not about fairlock's documents
		}
		mode, has := e.Command.Lookup("$readPreference", "mode").StringValueOK()
		level, _ := e.Command.Lookup("readConcern", "level").StringValueOK()
		w, _ := e.Command.Lookup("writeConcern", "w").StringValueOK()
		mu.Lock()
		defer mu.Unlock()
		seen[e.CommandName] = true
		write := slices.Contains([]string{"update", "findAndModify", "delete", "insert"}, e.CommandName)
		if !strings.HasPrefix(e.ConnectionID, hello.Primary) || has && mode != "primary" || write && w != "majority" ||
			e.CommandName == "find" && level != "majority" && level != "linearizable" {
			wrong = append(wrong, e.ConnectionID+" "+e.Command.String())
		}
	}})
	m := b.manager(fairlock.Config{TTL: shortTTL, TicketDelay: time.Millisecond}, spy)
	other := b.manager(fairlock.Config{})
	held, err := other.Lock(ctx, "x")
	require.NoError(t, err)
	next := waitBehind(t, ctx, m, "x")
	b.awaitWaiters(other, "x", 1)
	eventually(t, "stream open", func() bool { return m.Stats().Streaming })
	_, err = m.TryLock(ctx, "x")
	require.ErrorIs(t, err, fairlock.ErrBusy)
	require.NoError(t, held.Unlock(ctx))
	l := <-next
	_, err = m.Inspect(ctx, "x")
	require.NoError(t, err)
	renewed := func() bool { mu.Lock(); defer mu.Unlock(); return seen["aggregate"] && seen["find"] && seen["update"] }
	eventually(t, "reads, writes and a stream", renewed)
	require.NoError(t, l.Unlock(ctx))
	_, err = b.coll("locks").DeleteOne(ctx, bson.D{{Key: "_id", Value: "x"}})
	require.NoError(t, err)
	require.NoError(t, m.Close(ctx))
	mu.Lock()
	defer mu.Unlock()
	require.Empty(t, wrong)
	require.True(t, seen["findAndModify"] && seen["delete"], "%v", seen)
}

// TestScenarioConnectionsComeAndGo: what is held is in documents, not in connections. All of a holder's are cut, and cut again, within
// its lease; it stays the holder, and nobody else is granted the lock.
func TestScenarioConnectionsComeAndGo(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{})
	far, network := b.cutOff(fairlock.Config{})
	held, err := far.Lock(ctx, "x")
	require.NoError(t, err)
	next := waitBehind(t, ctx, m, "x")
	b.awaitWaiters(m, "x", 1)
	for range 5 {
		network.Cut()
		network.Mend()
		_, err := far.Inspect(ctx, "x")
		require.NoError(t, err, "over a new connection")
		require.NoError(t, held.Err())
		require.Empty(t, next)
	}
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, (<-next).Unlock(ctx))
	require.Zero(t, far.Stats().Lost+far.Stats().Requeued)
}
