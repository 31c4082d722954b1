package demo

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock/internal/replset"
)

// newLedger is a ledger without rows on a replica set of the test's own.
func newLedger(t *testing.T) (ledger, []Invoice) {
	t.Helper()
	set := replset.ForTest(t, replset.Options{Members: 1})
	client, err := mongo.Connect(options.Client().ApplyURI(set.URI()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Disconnect(context.Background())) })
	l := openLedger(client.Database("demo_test"), "x.")
	require.NoError(t, l.create(t.Context()))
	in, err := readInput("")
	require.NoError(t, err)
	return l, in[:4]
}

func always() error { return nil }
func nothing()      {}

// TestLedger goes through what can befall the holder of a lock between its read and the end of its writes (L1, L2).
func TestLedger(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l, in := newLedger(t)
	numbers := func(want ...int64) {
		t.Helper()
		rows, err := l.all(ctx)
		require.NoError(t, err)
		var got []int64
		for i := range rows {
			got = append(got, rows[i].Number)
		}
		require.Equal(t, want, got)
	}

	o, err := l.turn(ctx, in, 4, writer{10, 1, 1}, always, nothing)
	require.NoError(t, err)
	require.Equal(t, outcome{n: 1, wrote: true}, o)
	numbers(1)

	// One that dies between its two writes leaves a head without a row.
	died := errors.New("died")
	require.PanicsWithError(t, "died", func() {
		_, _ = l.turn(ctx, in, 4, writer{20, 1, 1}, always, func() { panic(died) })
	})
	numbers(1)
	h, err := l.readHead(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, h.N)

	// The next completes it. While that one is between its writes it is taken for dead, and its successor does its turn; its own
	// insert, which comes late, changes nothing.
	o, err = l.turn(ctx, in, 4, writer{30, 2, 1}, always, func() {
		numbers(1, 2)
		o, err := l.turn(ctx, in, 4, writer{40, 3, 1}, always, nothing)
		require.NoError(t, err)
		require.Equal(t, outcome{n: 4, wrote: true, repaired: 3}, o)
	})
	require.NoError(t, err)
	require.Equal(t, outcome{n: 3, wrote: true, repaired: 2}, o)
	numbers(1, 2, 3, 4)

	// One that comes back from the dead is refused.
	o, err = l.turn(ctx, in, 4, writer{35, 2, 1}, always, nothing)
	require.ErrorIs(t, err, errFenced)
	require.Equal(t, []int64{40}, o.refused)

	// All lines are invoiced; the turn of another changes nothing. Nor does a lost reply: the head shows who wrote.
	o, err = l.turn(ctx, in, 4, writer{50, 2, 1}, always, nothing)
	require.NoError(t, err)
	require.Equal(t, outcome{n: 4}, o)
	o, err = l.turn(ctx, in, 4, writer{40, 3, 1}, always, nothing)
	require.NoError(t, err)
	require.Equal(t, outcome{n: 4, wrote: true}, o)

	rows, err := l.all(ctx)
	require.NoError(t, err)
	rec := &Record{Input: in, Rows: rows}
	for _, p := range []Proof{noGap(rec), noDouble(rec), everyLine(rec), chain(rec), tokensIncrease(rec)} {
		require.True(t, p.OK, p)
	}
}

// TestLedgerLostBeforeCommit: whoever loses the lock between read and write writes nothing, and whoever does not know yet is
// refused by the condition, reads again, and finds itself fenced.
func TestLedgerLostBeforeCommit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l, in := newLedger(t)
	asked, lost := 0, errors.New("lost")
	o, err := l.turn(ctx, in, 4, writer{10, 1, 1}, func() error {
		if asked++; asked >= 2 { // lost stays lost
			return lost
		}
		return nil
	}, nothing)
	require.ErrorIs(t, err, lost)
	require.Equal(t, outcome{}, o)
	h, err := l.readHead(ctx)
	require.NoError(t, err)
	require.Equal(t, head{}, h)

	asked = 0
	o, err = l.turn(ctx, in, 4, writer{10, 1, 1}, func() error {
		if asked++; asked == 2 { // its read is done, its write is next
			_, err := l.turn(ctx, in, 4, writer{20, 2, 1}, always, nothing)
			require.NoError(t, err)
		}
		return nil
	}, nothing)
	require.ErrorIs(t, err, errFenced)
	require.Equal(t, []int64{20}, o.refused)
	require.False(t, o.wrote)

	_, err = l.rows.DeleteOne(ctx, bson.D{{Key: "_id", Value: 1}})
	require.NoError(t, err)
	_, err = l.head.UpdateByID(ctx, headID, bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: 3}}}})
	require.NoError(t, err)
	_, err = l.turn(ctx, in, 4, writer{30, 1, 1}, always, nothing)
	require.ErrorIs(t, err, errCorrupt)
}
