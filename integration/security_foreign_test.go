package integration

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
)

// garbler makes documents that are none of fairlock's, from a seed.
type garbler struct{ *rand.Rand }

// value is any BSON value.
func (g garbler) value(depth int) any {
	values := []func() any{
		func() any { return nil },
		func() any { return g.IntN(2) == 0 },
		func() any { return int32(g.IntN(10) - 5) },
		func() any { return g.Int64() - g.Int64() },
		func() any { return []int64{math.MinInt64, math.MaxInt64, -1, 0, 1, 1 << 60, 1<<61 + 1}[g.IntN(7)] },
		func() any {
			return []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300, -0.5, 5, math.MaxInt64}[g.IntN(7)]
		},
		func() any { d, _ := bson.ParseDecimal128([]string{"NaN", "1E6000", "-1", "0.1"}[g.IntN(4)]); return d },
		func() any { return []string{"", "x", "$settled", "$$NOW", "a.b", "\x00", "\xff\xfe", "é"}[g.IntN(8)] },
		func() any { return bson.ObjectID{byte(g.IntN(256))} },
		func() any { return bson.DateTime(g.Int64() - g.Int64()) },
		func() any { return bson.Timestamp{T: g.Uint32()} },
		func() any { return bson.Regex{Pattern: ".*"} },
		func() any { return bson.Symbol("x") },
		func() any { return bson.JavaScript("1") },
		func() any { return bson.Binary{Subtype: byte(g.IntN(128)), Data: []byte{1, 2, 3}} },
		func() any { return bson.MinKey{} },
		func() any { return bson.MaxKey{} },
		func() any { return bson.A{int64(1), "x", bson.D{{Key: "lo", Value: int64(1)}}} },
		func() any {
			if depth == 0 {
				return bson.D{}
			}
			return bson.D{{Key: "lo", Value: g.value(depth - 1)}, {Key: "hi", Value: g.value(depth - 1)}}
		},
		func() any {
			var v any = int32(1)
			for range g.IntN(60) {
				v = bson.D{{Key: "n", Value: v}}
			}
			return v
		},
	}
	return values[g.IntN(len(values))]()
}

// doc is a document of coll whose fields were set at random: most to what they should not be, some left as they should be.
func (g garbler) doc(id any, good bson.D, large bool) bson.D {
	d := bson.D{{Key: "_id", Value: id}}
	spoilt := g.IntN(len(good))
	for i, f := range good {
		switch {
		case i == spoilt || g.IntN(3) == 0:
			f.Value = g.value(2)
		case g.IntN(6) == 0:
			continue
		}
		if large && i == spoilt {
			f.Value = strings.Repeat("x", 1<<20)
		}
		d = append(d, f)
	}
	return d
}

// foreign are the collections' documents as they should be.
func foreign(now time.Time) map[string]bson.D {
	return map[string]bson.D{
		"locks": {
			{Key: "kind", Value: "mutex"}, {Key: "permits", Value: int64(1)}, {Key: "issued", Value: int64(20)}, {Key: "settled", Value: int64(10)},
			{Key: "frontier", Value: int64(11)}, {Key: "done", Value: bson.A{}}, {Key: "arrivals", Value: int64(3)}, {Key: "reached", Value: int64(1)},
			{Key: "calls", Value: int64(1)}, {Key: "grace", Value: int64(1000)}, {Key: "last", Value: bson.D{}}, {Key: "v", Value: int32(1)},
		},
		"tickets": {
			{Key: "hi", Value: int64(20)}, {Key: "session", Value: "nobody"}, {Key: "arrival", Value: int64(1)}, {Key: "weight", Value: int64(1)},
			{Key: "at", Value: now}, {Key: "labels", Value: bson.A{"x"}}, {Key: "passed", Value: int64(0)}, {Key: "puts", Value: int64(1)},
		},
		"sessions": {
			{Key: "beat", Value: int64(1)}, {Key: "ttl", Value: int64(3000)}, {Key: "expiresAt", Value: now}, {Key: "startedAt", Value: now},
			{Key: "host", Value: "h"}, {Key: "pid", Value: 1}, {Key: "label", Value: "l"},
		},
	}
}

// TestForeignDocuments: ten thousand documents that are none of fairlock's come into all three collections while locks are used. They
// are passed over and reported; the queue moves; the dead are cleared, also one whose session's document was spoiled.
func TestForeignDocuments(t *testing.T) {
	t.Parallel()
	const count, seed = 10_000, 5
	t.Logf("seed %d", seed)
	b := newBedAt(t, sharedURI)
	t.Cleanup(func() { _ = b.db.Drop(context.Background()) })
	ctx, cancel := context.WithTimeout(context.Background(), 3*limit)
	defer cancel()
	var log lines
	cfg := fairlock.Config{TTL: shortTTL, Logger: log.logger()}
	one, two := b.manager(cfg), b.manager(cfg)
	use := func(name string) {
		t.Helper()
		for _, m := range []*fairlock.Manager{one, two, one} {
			require.NoError(t, m.Do(ctx, name, func(context.Context) error { return nil }))
		}
	}
	use("x")
	b.die("dead", cfg)
	b.die("spoiled", cfg)
	info, err := one.Inspect(ctx, "spoiled")
	require.NoError(t, err)
	_, err = b.coll("sessions").UpdateByID(ctx, info.Holders[0].Owner.Session, bson.D{{Key: "$set", Value: bson.D{{Key: "beat", Value: "spoiled"}}}})
	require.NoError(t, err)

	g := garbler{rand.New(rand.NewPCG(seed, seed))}
	x, err := one.Inspect(ctx, "x")
	require.NoError(t, err)
	good := foreign(time.Now())
	colls := []string{"locks", "tickets", "sessions"}
	for at := 0; at < count; at += 500 {
		docs := map[string][]any{}
		for i := at; i < at+500; i++ {
			coll := colls[g.IntN(3)]
			id := g.value(1)
			switch g.IntN(3) {
			case 0:
				id = fmt.Sprint("\x7fforeign ", i)
			case 1:
				if coll == "tickets" {
					// In the queue of x, at numbers to come, or beside them.
					id = bson.D{{Key: "lock", Value: "x"}, {Key: "lo", Value: x.LastToken + int64(g.IntN(400))}}
					if g.IntN(2) == 0 {
						id = append(id.(bson.D), bson.E{Key: "more", Value: i})
					}
				}
			}
			docs[coll] = append(docs[coll], g.doc(id, good[coll], i%500 == 0))
		}
		for coll, of := range docs {
			// Some _ids are taken, some are none that a server stores.
			_, _ = b.coll(coll).InsertMany(ctx, of, options.InsertMany().SetOrdered(false))
		}
		use("x")
	}
	stored := int64(0)
	for _, coll := range colls {
		n, err := b.coll(coll).CountDocuments(ctx, bson.D{})
		require.NoError(t, err)
		t.Logf("%d documents in %s", n, coll)
		stored += n
	}
	require.Greater(t, stored, int64(count/2))

	for _, name := range []string{"dead", "spoiled"} {
		l, err := two.Lock(ctx, name)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(ctx))
	}
	use("x")
	list, err := one.List(ctx)
	require.NoError(t, err)
	malformed, ours := 0, 0
	for _, s := range list {
		if s.Malformed != "" {
			malformed++
		} else if s.Name == "x" || s.Name == "dead" || s.Name == "spoiled" {
			ours++
		}
	}
	require.Positive(t, malformed)
	require.Equal(t, 3, ours, "behind all the others")
	require.Positive(t, one.Stats().PassedOver+two.Stats().PassedOver)
	require.Positive(t, log.count("documents of others passed over"))
	eventually(t, "a sweep over all of it", func() bool { return one.Stats().Sweeps+two.Stats().Sweeps > 1 })
}

// TestSpoiledLock: a lock document that somebody has spoiled is an error for its callers at once, for each field, and for nobody else.
func TestSpoiledLock(t *testing.T) {
	t.Parallel()
	b := newBedAt(t, sharedURI)
	t.Cleanup(func() { _ = b.db.Drop(context.Background()) })
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{})
	for field, bad := range map[string]any{
		"issued": "x", "settled": bson.A{}, "frontier": math.NaN(), "permits": "one", "arrivals": "x", "grace": -1, "done": "x",
	} {
		name := "spoiled " + field
		require.NoError(t, m.Do(ctx, name, func(context.Context) error { return nil }))
		_, err := b.coll("locks").UpdateByID(ctx, name, bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: bad}}}})
		require.NoError(t, err)
		l, err := m.Lock(ctx, name)
		if err == nil {
			// Only those who leave look at done; and a grace is made good by an arrival.
			require.Contains(t, []string{"done", "grace"}, field)
			err = l.Unlock(ctx)
			if field == "grace" {
				require.NoError(t, err)
				continue
			}
		}
		require.True(t, err != nil, field)
		if field != "permits" { // which is another shape as well
			require.ErrorIs(t, err, fairlock.ErrMalformed, field)
		}
		_, err = m.Inspect(ctx, name)
		require.ErrorIs(t, err, fairlock.ErrMalformed, field)
		require.ErrorContains(t, err, name)
		require.NoError(t, b.coll("locks").FindOneAndDelete(ctx, bson.D{{Key: "_id", Value: name}}).Err())
		require.NoError(t, m.Do(ctx, name, func(context.Context) error { return nil }), "made anew")
	}
}
