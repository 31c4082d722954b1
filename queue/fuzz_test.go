package queue

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func seeds(f *testing.F, docs ...any) {
	for _, d := range docs {
		f.Add([]byte(raw(f, d)))
	}
}

// FuzzDecodeView: whatever bytes a server sends, the answer is an error or a document on which the arithmetic of the queue is safe.
func FuzzDecodeView(f *testing.F) {
	seeds(f, bson.D{{Key: "_id", Value: "x"}}, bson.D{
		{Key: "_id", Value: "x"}, {Key: "kind", Value: "mutex"}, {Key: "permits", Value: int64(1)}, {Key: "issued", Value: int64(20)},
		{Key: "settled", Value: int64(10)}, {Key: "frontier", Value: int64(11)}, {Key: "grace", Value: int64(1000)},
		{Key: "done", Value: bson.A{bson.D{{Key: "lo", Value: int64(13)}, {Key: "hi", Value: int64(14)}}}},
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decodeView(bson.Raw(b))
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		require.True(t, 0 <= v.Settled && v.Settled <= v.Issued && v.Settled < v.Frontier)
		require.LessOrEqual(t, v.Excess(), v.Issued-v.Settled)
		open := int64(0)
		for _, r := range Subtract(Range{v.Settled + 1, v.Issued}, v.Done) {
			require.True(t, v.Settled < r.Lo && r.Lo <= r.Hi && r.Hi <= v.Issued)
			open += r.Units()
		}
		require.LessOrEqual(t, open, v.Issued-v.Settled)
	})
}

// FuzzDecodeTicket: as FuzzDecodeView, of tickets; and a ticket keeps out whom it says it does.
func FuzzDecodeTicket(f *testing.F) {
	id := bson.D{{Key: "lock", Value: "x"}, {Key: "lo", Value: int64(10)}}
	dec, _ := bson.ParseDecimal128("1E1")
	seeds(f, bson.D{{Key: "_id", Value: id}, {Key: "hi", Value: int64(12)}, {Key: "session", Value: "s"}, {Key: "weight", Value: int64(3)},
		{Key: "labels", Value: bson.A{"a", 1}}, {Key: "passed", Value: int64(11)}},
		bson.D{{Key: "_id", Value: id}, {Key: "hi", Value: int64(10)}, {Key: "tomb", Value: true}},
		bson.D{{Key: "_id", Value: bson.D{{Key: "lock", Value: bson.Symbol("x")}, {Key: "lo", Value: dec}}}},
	)
	f.Fuzz(func(t *testing.T, b []byte) {
		at, own, ok := ticketAt(bson.Raw(b))
		k, err := decodeTicket(bson.Raw(b))
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		require.True(t, ok && own)
		require.Equal(t, at, k.ID)
		units := k.Range().Units()
		require.True(t, 1 <= units && units <= MostNumber && 1 <= k.Weight && k.Weight <= units)
		require.True(t, 0 <= k.Passed && k.Passed <= k.Hi)
		require.True(t, k.Tomb == (k.Session == ""))
		require.LessOrEqual(t, len(k.Labels), MaxLabels)
		for _, r := range Subtract(Range{1, MostNumber}, []Range{k.Range()}) {
			require.True(t, r.Lo <= r.Hi)
		}
	})
}

// FuzzValidateName: a name that is accepted goes through BSON and comes back, and is text that can be shown.
func FuzzValidateName(f *testing.F) {
	for _, s := range []string{"", "x", "a.b", "$x", "\x00", "\xff", "é", "\u202e", "\tsweep", "\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := ValidateName(name)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalidName)
			require.True(t, utf8.ValidString(err.Error()))
			require.Less(t, len(err.Error()), 8*MaxNameBytes)
			return
		}
		require.True(t, utf8.ValidString(name) && 0 < len(name) && len(name) <= MaxNameBytes)
		back, ok := raw(t, bson.D{{Key: "_id", Value: name}}).Lookup("_id").StringValueOK()
		require.True(t, ok)
		require.Equal(t, name, back)
	})
}
