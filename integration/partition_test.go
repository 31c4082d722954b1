package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/cable"
)

// cutOff makes a manager whose network to the primary can be cut.
func (b *bed) cutOff(cfg fairlock.Config) (*fairlock.Manager, *cable.Cable) {
	b.t.Helper()
	var hello struct{ Primary string }
	require.NoError(b.t, b.db.RunCommand(withLimit(b.t), bson.D{{Key: "hello", Value: 1}}).Decode(&hello))
	c, err := cable.New(hello.Primary)
	require.NoError(b.t, err)
	b.t.Cleanup(c.Close)
	direct := *b
	direct.uri = "mongodb://" + c.Addr() + "/?directConnection=true"
	return direct.manager(cfg), c
}

// TestHolderIsCutOff: a holder that no reply reaches any more is told by its own clock, and only after that is another granted. When the
// network is back, the process goes on.
func TestHolderIsCutOff(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{TTL: shortTTL})
	far, network := b.cutOff(fairlock.Config{TTL: shortTTL})
	held, err := far.Lock(ctx, "x")
	require.NoError(t, err)
	next := waitBehind(t, ctx, m, "x")
	b.awaitWaiters(m, "x", 1)
	told := make(chan time.Time, 1)
	context.AfterFunc(held.Context(), func() { told <- time.Now() })
	network.Cut()
	cut := time.Now()
	l := <-next
	granted := time.Now()
	require.ErrorIs(t, held.Err(), fairlock.ErrLost)
	at := <-told
	require.Less(t, at.Sub(cut), shortTTL, "told within the lease")
	require.True(t, at.Before(granted), "told %v before the other was granted", granted.Sub(at))
	requireRecovery(t, cut, "holder cut off")

	// A caller that waits beyond the cut gets its own deadline, with the reason.
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = far.Lock(short, "x")
	require.ErrorIs(t, err, context.DeadlineExceeded)

	network.Mend()
	require.ErrorIs(t, held.Unlock(ctx), fairlock.ErrLost)
	again := waitBehind(t, ctx, far, "x")
	b.awaitWaiters(m, "x", 1)
	require.NoError(t, l.Err(), "the new holder is not touched")
	require.NoError(t, l.Unlock(ctx))
	l2 := <-again
	require.Greater(t, l2.Token(), l.Token())
	require.NoError(t, l2.Unlock(ctx))
}

// TestWaiterIsCutOffForAMoment keeps its place.
func TestWaiterIsCutOffForAMoment(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{})
	far, network := b.cutOff(fairlock.Config{})
	held, err := m.Lock(ctx, "x")
	require.NoError(t, err)
	first := waitBehind(t, ctx, far, "x")
	b.awaitWaiters(m, "x", 1)
	second := waitBehind(t, ctx, m, "x")
	b.awaitWaiters(m, "x", 2)
	network.Cut()
	require.NoError(t, held.Unlock(ctx))
	select {
	case <-second:
		require.Fail(t, "overtaken")
	case <-time.After(2 * time.Second):
	}
	network.Mend()
	l := <-first
	require.NoError(t, l.Unlock(ctx))
	require.NoError(t, (<-second).Unlock(ctx))
	require.Zero(t, far.Stats().Requeued)
}
