package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/waiter"
)

// lineUp takes n numbers of a lock for processes that share no slot, one each.
func lineUp(t *testing.T, q *queue.Collections, name string, n int64) []queue.Place {
	t.Helper()
	var all []queue.Place
	for i := range n {
		p, err := q.Enqueue(withLimit(t), name, queue.Mutex, queue.Arrival{Owner: uint64(i), Mark: i + 1, Units: 1, Grace: time.Second})
		require.NoError(t, err)
		all = append(all, p)
	}
	return all
}

func settle(t *testing.T, q *queue.Collections, name string, places ...queue.Place) {
	t.Helper()
	for _, p := range places {
		fresh, err := q.Settle(withLimit(t), name, []queue.Range{p.Range}, p.Arrival)
		require.NoError(t, err)
		require.True(t, fresh)
	}
}

// nextEvents waits for n events, and not longer than a few silences.
func nextEvents(t *testing.T, s waiter.Stream, n int) []waiter.Event {
	t.Helper()
	var all []waiter.Event
	for silences := 0; len(all) < n; {
		events, err := s.Next(withLimit(t))
		require.NoError(t, err)
		if len(events) == 0 {
			silences++
		}
		require.Less(t, silences, 3, "of %d events only %+v", n, all)
		all = append(all, events...)
	}
	return all
}

// TestStreamBeginsWhereItsOpeningBegan: what is committed after the operation time was taken and before the server opens the stream
// is in it.
func TestStreamBeginsWhereItsOpeningBegan(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	q := queue.Open(b.db, "fairlock.", true)
	places := lineUp(t, q, "x", 2)
	opening, err := waiter.Mongo{Queue: q}.Begin(ctx)
	require.NoError(t, err)
	defer opening.End()
	settle(t, q, "x", places[0])
	s, err := opening.Open(ctx, time.Second, nil)
	require.NoError(t, err)
	defer s.Close(ctx)
	e := nextEvents(t, s, 1)[0]
	require.Equal(t, []any{"x", places[1].Hi}, []any{e.Name, e.Frontier})
	settle(t, q, "x", places[1])
}

// TestOpeningReadsAfterItsTime: the read that goes with an opening is no older than the stream's beginning.
func TestOpeningReadsAfterItsTime(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	var r reads
	q := queue.Open(connect(t, b.uri, r.options()).Database(b.db.Name()), "fairlock.", true)
	places := lineUp(t, q, "x", 1)
	opening, err := waiter.Mongo{Queue: q}.Begin(ctx)
	require.NoError(t, err)
	defer opening.End()
	views, err := opening.Views(ctx, []string{"x"})
	require.NoError(t, err)
	require.Len(t, views, 1)
	concern := r.last(t)
	require.Equal(t, "majority", concern.Lookup("level").StringValue())
	require.Equal(t, bson.TypeTimestamp, concern.Lookup("afterClusterTime").Type)
	settle(t, q, "x", places[0])
}

// TestEventsSayWhatTheyShow: an update by which settled has not changed, one that does, a replacement (which the server may log instead of
// an update), and a deletion.
func TestEventsSayWhatTheyShow(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	q := queue.Open(b.db, "fairlock.", true)
	p := lineUp(t, q, "x", 16) // the document is so large that a change is logged as one
	opening, err := waiter.Mongo{Queue: q}.Begin(ctx)
	require.NoError(t, err)
	defer opening.End()
	s, err := opening.Open(ctx, time.Second, nil)
	require.NoError(t, err)
	defer s.Close(ctx)

	settle(t, q, "x", p[1], p[0])
	var whole bson.D
	require.NoError(t, b.coll("locks").FindOne(ctx, bson.D{{Key: "_id", Value: "x"}}).Decode(&whole))
	_, err = b.coll("locks").ReplaceOne(ctx, bson.D{{Key: "_id", Value: "x"}}, append(whole, bson.E{Key: "extra", Value: 1}))
	require.NoError(t, err)
	_, err = b.coll("locks").DeleteOne(ctx, bson.D{{Key: "_id", Value: "x"}})
	require.NoError(t, err)
	require.Equal(t, []waiter.Event{
		{Name: "x", Settled: p[0].Lo - 1, Frontier: p[1].Hi, Reached: 2},
		{Name: "x", Settled: p[1].Hi, Frontier: p[2].Hi},
		{Name: "x", Settled: p[1].Hi, Frontier: p[2].Hi, Reached: 2},
		{Name: "x", Deleted: true},
	}, nextEvents(t, s, 4))
}

// TestStreamEndsWithItsCollection: the cursor of a dropped collection is closed without an error, and a stream on it is no stream.
func TestStreamEndsWithItsCollection(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	q := queue.Open(b.db, "fairlock.", true)
	lineUp(t, q, "x", 1)
	opening, err := waiter.Mongo{Queue: q}.Begin(ctx)
	require.NoError(t, err)
	defer opening.End()
	s, err := opening.Open(ctx, time.Second, nil)
	require.NoError(t, err)
	defer s.Close(ctx)
	require.NoError(t, b.coll("locks").Drop(ctx))
	for silences := 0; err == nil; silences++ {
		require.Less(t, silences, 10)
		_, err = s.Next(ctx)
	}
	require.ErrorContains(t, err, "change stream")
}
