package integration

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock/queue"
)

// TestRepeatedArrivalChangesTheDocument: a server that was deposed and does not know it acknowledges at once what changes nothing.
func TestRepeatedArrivalChangesTheDocument(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	q := queue.Open(b.db, "fairlock.", true)
	a := queue.Arrival{Owner: 5, Mark: 1, Units: 1, Grace: time.Second}
	var first queue.Place
	for i := range int64(4) {
		p, err := q.Enqueue(ctx, "x", queue.Mutex, a)
		require.NoError(t, err)
		if i == 0 {
			first = p
		}
		require.Equal(t, first.Range, p.Range)
		raw, err := b.coll("locks").FindOne(ctx, bson.D{{Key: "_id", Value: "x"}}).Raw()
		require.NoError(t, err)
		require.Equal(t, i+1, raw.Lookup("last", "s5", "asked").AsInt64())
	}
	_, err := q.Settle(ctx, "x", []queue.Range{first.Range}, 1)
	require.NoError(t, err)
}

// TestGraceIsTheLongestOfThoseWhoWait, whoever comes later and by whichever call, and is the newcomer's own again when nobody is there.
func TestGraceIsTheLongestOfThoseWhoWait(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	q := queue.Open(b.db, "fairlock.", true)
	grace := func() time.Duration {
		v, found, err := q.View(ctx, "x")
		require.NoError(t, err)
		require.True(t, found)
		return v.Grace()
	}
	shape := queue.Shape{Kind: "pool", Permits: 3}
	mark := int64(0)
	for _, longest := range []time.Duration{20 * time.Second, 10 * time.Second} {
		var places []queue.Range
		for _, g := range []time.Duration{longest, time.Second} {
			mark++
			p, err := q.Enqueue(ctx, "x", shape, queue.Arrival{Mark: mark, Units: 1, Grace: g})
			require.NoError(t, err)
			require.Equal(t, longest, grace())
			places = append(places, p.Range)
		}
		mark++
		p, admitted, err := q.Try(ctx, "x", shape, queue.Arrival{Mark: mark, Units: 1, Grace: time.Second})
		require.NoError(t, err)
		require.True(t, admitted)
		require.Equal(t, longest, grace())
		_, err = q.Settle(ctx, "x", append(places, p.Range), 0)
		require.NoError(t, err)
	}
}

// TestSettleOfNumbersNotIssued: the document does not know them: they are of another one, that was dropped.
func TestSettleOfNumbersNotIssued(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	q := queue.Open(b.db, "fairlock.", true)
	p, err := q.Enqueue(ctx, "x", queue.Mutex, queue.Arrival{Mark: 1, Units: 2, Grace: time.Second})
	require.NoError(t, err)
	document := func() bson.Raw {
		raw, err := b.coll("locks").FindOne(ctx, bson.D{{Key: "_id", Value: "x"}}).Raw()
		require.NoError(t, err)
		return raw
	}
	before := document()
	for _, r := range []queue.Range{{Lo: p.Hi + 1, Hi: p.Hi + 1}, {Lo: p.Lo, Hi: p.Hi + 1}} {
		fresh, err := q.Settle(ctx, "x", []queue.Range{r}, 0)
		require.NoError(t, err)
		require.False(t, fresh)
		require.Equal(t, before, document())
	}
	_, err = q.Settle(ctx, "x", []queue.Range{p.Range}, 1)
	require.NoError(t, err)
}

// reads keeps the read concerns of a client's finds.
type reads struct {
	mu  sync.Mutex // guards all
	all []bson.Raw
}

func (r *reads) options() *options.ClientOptions {
	return options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName != "find" {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		concern, _ := e.Command.Lookup("readConcern").DocumentOK()
		r.all = append(r.all, append(bson.Raw(nil), concern...)) // the driver uses its memory again
	}})
}

// last is the newest.
func (r *reads) last(t *testing.T) bson.Raw {
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NotEmpty(t, r.all)
	return r.all[len(r.all)-1]
}

// TestAbsenceIsReadLinearizably: a majority read may come from a server that was deposed and is behind.
func TestAbsenceIsReadLinearizably(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	var r reads
	q := queue.Open(connect(t, b.uri, r.options()).Database(b.db.Name()), "fairlock.", true)
	gone, err := q.Gone(ctx, "x")
	require.NoError(t, err)
	require.True(t, gone)
	require.Equal(t, "linearizable", r.last(t).Lookup("level").StringValue())
	_, _, err = q.View(ctx, "x")
	require.NoError(t, err)
	require.Equal(t, "majority", r.last(t).Lookup("level").StringValue())
}
