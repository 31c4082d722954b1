package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	good := View{Name: "x", Permits: 2, Issued: 12, Settled: 10, Frontier: 12}
	require.NoError(t, good.check())
	for rule, bad := range map[string]View{
		"permits is 0":                {Issued: 12, Settled: 10, Frontier: 12},
		"permits is -1":               {Permits: -1, Issued: 12, Settled: 10, Frontier: 12},
		"issued is 9 and settled 10":  {Permits: 1, Issued: 9, Settled: 10, Frontier: 12},
		"issued is 12 and settled -1": {Permits: 1, Issued: 12, Settled: -1, Frontier: 12},
		"frontier is 10":              {Permits: 1, Issued: 12, Settled: 10, Frontier: 10},
	} {
		err := bad.check()
		require.ErrorIs(t, err, ErrMalformed)
		require.ErrorContains(t, err, rule)
	}
}

func TestTicketCheck(t *testing.T) {
	t.Parallel()
	id := TicketID{"x", 10}
	for _, good := range []Ticket{
		{ID: id, Hi: 10, Session: "s", Weight: 1},
		{ID: id, Hi: 12, Session: "s", Weight: 3},
		{ID: id, Hi: 10, Tomb: true},
	} {
		require.NoError(t, good.check())
	}
	for _, bad := range []Ticket{
		{},
		{ID: TicketID{"", 10}, Hi: 10, Session: "s", Weight: 1},
		{ID: id, Hi: 9, Session: "s", Weight: 1},
		{ID: id, Hi: 10, Weight: 1},
		{ID: id, Hi: 10, Session: "s"},
		{ID: id, Hi: 10, Session: "s", Weight: 1, Tomb: true},
		{ID: id, Hi: 11, Tomb: true},
	} {
		require.ErrorIs(t, bad.check(), ErrMalformed, "%+v", bad)
	}
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
