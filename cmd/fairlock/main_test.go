package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/replset"
)

// long is how long anything may take before a test fails. It is no measure of anything.
const long = 30 * time.Second

// deployment is what all tests run against: that of FAIRLOCK_URI, or a replica set of one. Each test has a database of
// its own in it. What must be hurt is reached through a proxy.
var deployment struct {
	uri    string
	client *mongo.Client
}

// TestMain gives the tests the command "fairlock" in PATH: this very binary, with the race detector that it has.
func TestMain(m *testing.M) {
	// A program with the race detector otherwise stays for a second after its end.
	if err := os.Setenv("GORACE", strings.TrimSpace("atexit_sleep_ms=0 "+os.Getenv("GORACE"))); err != nil {
		panic(err)
	}
	testscript.Main(suite{m}, map[string]func(){"fairlock": main})
}

// unignore gives the programs that tests start the signals that this process was started to ignore, as one is under nohup, or
// in the background of a script: fairlock itself leaves ignored signals ignored, and the tests are about the others. A
// signal that is caught here is at its default in a child.
func unignore() {
	for _, sig := range append([]os.Signal{syscall.SIGQUIT}, ending...) {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// suite runs the tests on a deployment. Without one they fail; none is skipped.
type suite struct{ m *testing.M }

func (s suite) Run() (code int) {
	unignore()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // may download mongod
	defer cancel()
	uri, set, err := replset.FromEnvOrStart(ctx, replset.Options{Members: 1})
	if err != nil {
		return failed("start MongoDB", err)
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err == nil {
		err = client.Ping(ctx, nil)
	}
	if err != nil {
		return failed("reach MongoDB", err)
	}
	deployment.uri, deployment.client = uri, client
	code = s.m.Run()

	if err := client.Disconnect(context.Background()); err != nil {
		code = failed("disconnect", err)
	}
	if err := set.Stop(context.Background()); err != nil {
		code = failed("stop MongoDB", err)
	}
	if err := goleak.Find(); code == 0 && err != nil {
		code = failed("leaks", err)
	}
	return code
}

var databases atomic.Int64

// newDatabase returns a database of which nobody else knows, and a URI for it.
func newDatabase(cleanup func(func())) (*mongo.Database, string) {
	name := fmt.Sprintf("cli-%d-%d", os.Getpid(), databases.Add(1))
	db := deployment.client.Database(name)
	cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), long)
		defer cancel()
		_ = db.Drop(ctx) // the deployment may be the developer's; what is left there harms nobody
	})
	return db, withDatabase(deployment.uri, name)
}

// withDatabase is uri with another database.
func withDatabase(uri, name string) string {
	base, query, _ := strings.Cut(uri, "?")
	scheme, rest, _ := strings.Cut(base, "://")
	hosts, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + hosts + "/" + name + "?" + query
}

func failed(what string, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
	return 1
}
