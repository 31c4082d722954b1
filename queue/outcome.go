package queue

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// HasCode reports whether err is a server's error with that code.
func HasCode(err error, code int) bool {
	var se mongo.ServerError
	return errors.As(err, &se) && se.HasErrorCode(code)
}

// transient are the codes of refusals that end by themselves: elections, shutdowns, interrupted or slow operations, a
// server that sheds load.
var transient = []int{
	6,     // HostUnreachable
	7,     // HostNotFound
	18,    // AuthenticationFailed: of a new connection, while who was let in before goes on
	24,    // LockTimeout
	43,    // CursorNotFound
	50,    // MaxTimeMSExpired
	64,    // WriteConcernFailed
	89,    // NetworkTimeout
	91,    // ShutdownInProgress
	100,   // UnsatisfiableWriteConcern
	112,   // WriteConflict
	133,   // FailedToSatisfyReadPreference
	134,   // ReadConcernMajorityNotAvailableYet
	175,   // QueryPlanKilled
	189,   // PrimarySteppedDown
	202,   // NetworkInterfaceExceededTimeLimit
	211,   // KeyNotFound: for signing cluster times, right after a start
	237,   // CursorKilled
	262,   // ExceededTimeLimit
	355,   // InterruptedDueToStorageChange
	365,   // TemporarilyUnavailable
	462,   // IngressRequestRateLimitExceeded
	9001,  // SocketException
	10058, // LegacyNotPrimary
	10107, // NotWritablePrimary
	11600, // InterruptedAtShutdown
	11601, // Interrupted
	11602, // InterruptedDueToReplStateChange
	13435, // NotPrimaryNoSecondaryOk
	13436, // NotPrimaryOrSecondary
}

// Permanent reports whether repeating the call cannot help: the server understood it and said no (privileges,
// validation, types, shape), or the client was closed. Of everything else the outcome is unknown:
// not done, done, or still to be done. A failed write concern is unknown too, though its reply carries a document.
func Permanent(err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, ErrMismatch), errors.Is(err, ErrMalformed), errors.Is(err, ErrInvalidName), errors.Is(err, ErrTooBig),
		errors.Is(err, ErrTooManyWaiters), errors.Is(err, mongo.ErrClientDisconnected):
		return true
	case mongo.IsTimeout(err), mongo.IsNetworkError(err), errors.Is(err, context.Canceled):
		return false
	}
	var we mongo.WriteException
	if errors.As(err, &we) && we.WriteConcernError != nil {
		return false
	}
	var se mongo.ServerError
	if !errors.As(err, &se) || se.HasErrorLabel("RetryableWriteError") || se.HasErrorLabel("RetryableError") {
		return false
	}
	for _, code := range transient {
		if se.HasErrorCode(code) {
			return false
		}
	}
	return true
}

func wrap(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("fairlock: lock %q: %w", name, err)
}
