package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/waiter"
)

// TestStreamOfSomeLocks: the server leaves out the events of other locks, whatever their names look like.
func TestStreamOfSomeLocks(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	q := queue.Open(b.db, "fairlock.", true)
	names := []string{"$_id", "a.b", "other"}
	mark := int64(0)
	enqueue := func(name string) queue.Place {
		mark++
		p, err := q.Enqueue(ctx, name, queue.Mutex, queue.Arrival{Mark: mark, Units: 1, Grace: time.Second})
		require.NoError(t, err)
		return p
	}
	var held, waits []queue.Place
	for _, name := range names {
		held = append(held, enqueue(name))
		waits = append(waits, enqueue(name))
	}
	opening, err := waiter.Mongo{Queue: q}.Begin(ctx)
	require.NoError(t, err)
	defer opening.End()
	s, err := opening.Open(ctx, time.Second, names[:2])
	require.NoError(t, err)
	defer s.Close(ctx)
	for _, i := range []int{2, 0, 1} {
		fresh, err := q.Settle(ctx, names[i], []queue.Range{held[i].Range}, held[i].Arrival)
		require.NoError(t, err)
		require.True(t, fresh)
	}
	var heard []string
	for len(heard) < 2 {
		events, err := s.Next(ctx)
		require.NoError(t, err)
		for _, e := range events {
			heard = append(heard, e.Name)
		}
	}
	require.Equal(t, names[:2], heard)
	for i, p := range waits {
		_, err := q.Settle(ctx, names[i], []queue.Range{p.Range}, p.Arrival)
		require.NoError(t, err)
	}
}
