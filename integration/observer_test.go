package integration

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

// sightings are what the observer of one manager was told.
type sightings struct {
	mu       sync.Mutex // guards all below
	acquired []fairlock.Acquired
	ended    []fairlock.Ended
	renewed  map[bool]int // by whether it succeeded
	took     time.Duration
	opened   int
	failed   []fairlock.StreamFailed
	reaped   map[string]int64
}

func (s *sightings) observer() *fairlock.Observer {
	s.renewed, s.reaped = map[bool]int{}, map[string]int64{}
	note := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	}
	return &fairlock.Observer{
		Acquired: func(ctx context.Context, a fairlock.Acquired) context.Context {
			note(func() { s.acquired = append(s.acquired, a) })
			return ctx
		},
		Ended: func(_ context.Context, e fairlock.Ended) { note(func() { s.ended = append(s.ended, e) }) },
		Renewed: func(r fairlock.Renewed) {
			note(func() {
				s.renewed[r.Err == nil]++
				s.took = max(s.took, r.Took)
			})
		},
		StreamOpened: func(took time.Duration) {
			note(func() {
				if took > 0 {
					s.opened++
				}
			})
		},
		StreamFailed: func(f fairlock.StreamFailed) { note(func() { s.failed = append(s.failed, f) }) },
		Reaped:       func(r fairlock.Reaped) { note(func() { s.reaped[r.Kind] += r.N }) },
	}
}

// TestObserverOfACutOffHolder: what observers on both sides are told when a holder is cut off and another gets its lock.
func TestObserverOfACutOffHolder(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	var near, far sightings
	m := b.manager(fairlock.Config{TTL: shortTTL, Observer: near.observer()})
	cut, network := b.cutOff(fairlock.Config{TTL: shortTTL, Observer: far.observer()})
	held, err := cut.Lock(ctx, "x")
	require.NoError(t, err)
	next := waitBehind(t, ctx, m, "x")
	b.awaitWaiters(m, "x", 1)
	network.Cut()
	l := <-next
	eventually(t, "the loss is told", func() bool {
		far.mu.Lock()
		defer far.mu.Unlock()
		return len(far.ended) > 0
	})
	network.Mend()
	require.ErrorIs(t, held.Unlock(ctx), fairlock.ErrLost)
	require.NoError(t, l.Unlock(ctx))
	require.NoError(t, cut.Close(ctx))
	require.NoError(t, m.Close(ctx))

	far.mu.Lock()
	defer far.mu.Unlock()
	near.mu.Lock()
	defer near.mu.Unlock()
	require.Equal(t, []string{"lease"}, []string{far.ended[0].Reason()})
	require.Len(t, far.ended, 1)
	require.Less(t, far.ended[0].Held, shortTTL+time.Second)
	require.Positive(t, far.took)

	require.Len(t, near.acquired, 1)
	a := near.acquired[0]
	require.Equal(t, "granted", a.Outcome())
	require.EqualValues(t, 1, a.Ahead)
	require.Equal(t, l.Token(), a.Token)
	require.Greater(t, a.Waited, time.Second)
	require.Len(t, near.ended, 1)
	require.Equal(t, "unlocked", near.ended[0].Reason())
	require.Positive(t, near.ended[0].Handed, "a majority write")
	require.EqualValues(t, 1, near.reaped["session"])
	require.EqualValues(t, 1, near.reaped["ticket"])
	require.Positive(t, near.opened)
	require.Positive(t, near.renewed[true])
	require.Zero(t, near.renewed[false])
	require.Empty(t, near.failed)
	require.Zero(t, m.Stats().Unobserved+cut.Stats().Unobserved)
}
