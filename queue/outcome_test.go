package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func TestValidateName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", " ", "$where", "a.b", ".", "ü", "\u2028", "🔒", "{\"$gt\":1}", strings.Repeat("x", 255), "../../etc"} {
		require.NoError(t, ValidateName(name), "%q", name)
	}
	for _, c := range []struct{ name, rule string }{
		{"", "must not be empty"},
		{strings.Repeat("x", 256), "at most 255 bytes, has 256"},
		{strings.Repeat("ü", 128), "at most 255 bytes, has 256"},
		{"a\xff", "valid UTF-8"},
		{"\xed\xa0\x80", "valid UTF-8"},
		{"a\x00b", "U+0000"},
		{"\t", "U+0009"},
		{"a\n", "U+000A"},
		{"\u0085", "U+0085"},
		{"\x7f", "U+007F"},
	} {
		err := ValidateName(c.name)
		require.ErrorIs(t, err, ErrInvalidName, "%q", c.name)
		require.ErrorContains(t, err, c.rule)
		for _, r := range err.Error() {
			require.True(t, r >= ' ' && r < 0x7f, "the message is printable ASCII: %q", err.Error())
		}
		require.True(t, Permanent(err))
	}
}

func TestViewCheck(t *testing.T) {
	t.Parallel()
	good := View{Name: "x", Kind: "k", Permits: 2, Issued: 20, Settled: 10, Frontier: 12, Done: []Range{{13, 14}, {16, 20}}}
	require.NoError(t, good.check())
	for rule, spoil := range map[string]func(*View){
		"kind has 0 bytes":              func(v *View) { v.Kind = "" },
		"permits is 0":                  func(v *View) { v.Permits = 0 },
		"permits is -1":                 func(v *View) { v.Permits = -1 },
		"issued is 9 and settled 10":    func(v *View) { v.Issued = 9 },
		"issued is 20 and settled -1":   func(v *View) { v.Settled = -1 },
		"issued is 9223372036854775807": func(v *View) { v.Issued = math.MaxInt64 },
		"frontier is 10":                func(v *View) { v.Frontier = 10 },
		"frontier is 23":                func(v *View) { v.Frontier = 23 },
		"grace is -1":                   func(v *View) { v.GraceMS = -1 },
		"grace is 9223372036854775807":  func(v *View) { v.GraceMS = math.MaxInt64 },
		"done has [10,14]":              func(v *View) { v.Done = []Range{{10, 14}} },
		"done has [14,13]":              func(v *View) { v.Done = []Range{{14, 13}} },
		"done has [13,13]":              func(v *View) { v.Done = []Range{{14, 15}, {13, 13}} },
		"done has [19,21]":              func(v *View) { v.Done = []Range{{19, 21}} },
	} {
		bad := good
		spoil(&bad)
		err := bad.check()
		require.ErrorIs(t, err, ErrMalformed)
		require.ErrorContains(t, err, rule)
	}
}

func TestTicketCheck(t *testing.T) {
	t.Parallel()
	id := bson.D{{Key: "lock", Value: "x"}, {Key: "lo", Value: int64(10)}}
	type d = bson.M
	for _, good := range []d{
		{"_id": id, "hi": int64(10), "session": "s", "weight": int64(1)},
		{"_id": id, "hi": int32(12), "session": "s", "weight": int64(3)},
		{"_id": id, "hi": int64(10), "tomb": true},
		{"_id": id, "hi": int64(10), "session": "s", "weight": "much", "labels": 7, "at": "now", "passed": bson.A{}, "arrival": 0.5},
		{"_id": id, "hi": int64(10), "session": "s", "weight": int64(math.MaxInt64), "passed": int64(math.MaxInt64)},
	} {
		k, err := decodeTicket(raw(t, good))
		require.NoError(t, err)
		require.LessOrEqual(t, k.Weight, k.Range().Units())
		require.LessOrEqual(t, k.Passed, k.Hi)
	}
	for _, bad := range []d{
		{},
		{"_id": "x", "hi": int64(10), "session": "s"},
		{"_id": bson.D{{Key: "lo", Value: int64(10)}, {Key: "lock", Value: "x"}}, "hi": int64(10), "session": "s"},
		{"_id": append(id, bson.E{Key: "more", Value: 1}), "hi": int64(10), "session": "s"},
		{"_id": bson.D{{Key: "lock", Value: "x"}, {Key: "lo", Value: 10.0}}, "hi": int64(10), "session": "s"},
		{"_id": id, "hi": int64(9), "session": "s"},
		{"_id": id, "hi": int64(math.MaxInt64), "session": "s"},
		{"_id": id, "hi": "10", "session": "s"},
		{"_id": id, "hi": int64(10)},
		{"_id": id, "hi": int64(10), "session": ""},
		{"_id": id, "hi": int64(10), "session": 5},
		{"_id": id, "hi": int64(10), "session": "s", "tomb": true},
		{"_id": id, "hi": int64(10), "tomb": "yes"},
		{"_id": id, "hi": int64(11), "tomb": true},
	} {
		_, err := decodeTicket(raw(t, bad))
		require.ErrorIs(t, err, ErrMalformed, "%+v", bad)
	}
}

// TestTicketAt: what keeps the ticket of a number out is a document whose _id is the same to the unique index.
func TestTicketAt(t *testing.T) {
	t.Parallel()
	decimal := func(s string) bson.Decimal128 {
		d, err := bson.ParseDecimal128(s)
		require.NoError(t, err)
		return d
	}
	for _, same := range []any{int64(10), int32(10), 10.0, decimal("10"), decimal("1E1"), decimal("10.00")} {
		id, own, ok := ticketAt(raw(t, bson.M{"_id": bson.D{{Key: "lock", Value: "x"}, {Key: "lo", Value: same}}}))
		require.True(t, ok, "%v", same)
		require.Equal(t, TicketID{"x", 10}, id)
		_, long := same.(int64)
		require.Equal(t, long, own)
	}
	for _, other := range []any{10.5, math.NaN(), math.Inf(1), 1e300, decimal("1E300"), decimal("10.5"), decimal("NaN"), "10", nil, bson.A{10}} {
		_, _, ok := ticketAt(raw(t, bson.M{"_id": bson.D{{Key: "lock", Value: "x"}, {Key: "lo", Value: other}}}))
		require.False(t, ok, "%v", other)
	}
	_, own, ok := ticketAt(raw(t, bson.M{"_id": bson.D{{Key: "lock", Value: bson.Symbol("x")}, {Key: "lo", Value: int64(1)}}}))
	require.True(t, ok)
	require.False(t, own)
}

func raw(t testing.TB, v any) bson.Raw {
	b, err := bson.Marshal(v)
	require.NoError(t, err)
	return b
}

func TestPermanent(t *testing.T) {
	t.Parallel()
	concern := mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64, Message: "waiting for replication timed out"}}
	for _, c := range []struct {
		name      string
		err       error
		permanent bool
	}{
		{"none", nil, false},
		{"mismatch", &MismatchError{"x", Mutex, Shape{"other", 2}}, true},
		{"malformed", fmt.Errorf("%w: x", ErrMalformed), true},
		{"too many", &TooManyWaitersError{Name: "x"}, true},
		{"privilege", &PrivilegeError{cause: mongo.CommandError{Code: 13}}, true},
		{"client closed", mongo.ErrClientDisconnected, true},
		{"deadline", context.DeadlineExceeded, false},
		{"cancelled", context.Canceled, false},
		{"anything else of the client's", errors.New("connection pool cleared"), false},
		{"network", mongo.CommandError{Labels: []string{"NetworkError"}}, false},
		{"unauthorized", mongo.CommandError{Code: 13, Name: "Unauthorized"}, true},
		{"bad value", mongo.CommandError{Code: 2, Name: "BadValue"}, true},
		{"document validation", mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 121}}}, true},
		{"max time", mongo.CommandError{Code: 50}, false},
		{"stepped down", mongo.CommandError{Code: 189}, false},
		{"not primary", mongo.CommandError{Code: 10107}, false},
		{"shut down", mongo.CommandError{Code: 11600}, false},
		{"write conflict", mongo.CommandError{Code: 112}, false},
		{"load shed", mongo.CommandError{Code: 462}, false},
		{"labelled retryable", mongo.CommandError{Code: 99999, Labels: []string{"RetryableWriteError"}}, false},
		{"labelled overload", mongo.CommandError{Code: 99999, Labels: []string{"RetryableError"}}, false},
		{"write concern failed", concern, false},
		{"wrapped", wrap("x", mongo.CommandError{Code: 13}), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.permanent, Permanent(c.err))
		})
	}
}

func TestMismatchError(t *testing.T) {
	t.Parallel()
	err := error(&MismatchError{"x", Mutex, Shape{"semaphore", 3}})
	require.ErrorIs(t, err, ErrMismatch)
	require.EqualError(t, err, `fairlock: lock "x" is a semaphore with 3 permits, not a mutex with 1 permits`)
}
