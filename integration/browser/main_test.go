package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/gateway"
	"github.com/fairlock/fairlock/internal/replset"
)

// shared is what the tests share.
var shared struct {
	b   *browser
	hub hub
	uri string
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute) // may download both
	defer cancel()
	uri, set, err := replset.FromEnvOrStart(ctx, replset.Options{Members: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, "browser: no replica set:", err)
		return 1
	}
	shared.uri = uri
	shared.b, err = start(ctx)
	if err == nil {
		shared.hub.tabs = map[string]*tab{}
		shared.b.listen = shared.hub.hear
		code = m.Run()
		err = shared.b.stop()
	}
	if err := errors.Join(err, set.Stop(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		return 1
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "browser: goroutines left:", err)
		return 1
	}
	return code
}

var databases atomic.Int64

// bed is a gateway with a database of its own.
type bed struct {
	t    *testing.T
	m    *fairlock.Manager
	s    *gateway.Server
	addr string
	db   *mongo.Database
	http *http.Client
	auth string
	stop func()
}

func newBed(t *testing.T, cfg gateway.Config) *bed {
	t.Helper()
	t.Parallel()
	b := &bed{t: t, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}}}
	client, err := mongo.Connect(options.Client().ApplyURI(shared.uri))
	require.NoError(t, err)
	db := client.Database(fmt.Sprintf("browser-%d-%d", os.Getpid(), databases.Add(1)))
	t.Cleanup(func() {
		_ = db.Drop(context.Background())
		_ = client.Disconnect(context.Background())
		b.http.CloseIdleConnections()
	})
	// One of another process, so that the queue has both.
	b.m, err = fairlock.New(t.Context(), db, &fairlock.Config{Label: "nightly report"})
	require.NoError(t, err)
	b.db = db
	b.serve(db, cfg, "127.0.0.1:0")
	t.Cleanup(func() {
		b.stop()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		require.NoError(t, b.m.Close(ctx))
	})
	return b
}

// serve starts a gateway, which stop ends.
func (b *bed) serve(db *mongo.Database, cfg gateway.Config, addr string) {
	b.t.Helper()
	if len(cfg.Clients) == 0 {
		cfg.Anonymous, cfg.LocalOnly = true, true
	} else {
		b.auth = "Bearer " + cfg.Clients[0].Token
	}
	m, err := fairlock.New(context.Background(), db, &fairlock.Config{Label: "gateway"})
	require.NoError(b.t, err)
	b.s, err = gateway.New(m, &cfg)
	require.NoError(b.t, err)
	ln, err := net.Listen("tcp", addr)
	require.NoError(b.t, err)
	b.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- b.s.Serve(ln) }()
	b.stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		require.NoError(b.t, errors.Join(b.s.Close(ctx), m.Close(ctx), <-served))
	}
}

func (b *bed) url() string { return "http://" + b.addr + "/" }

func (b *bed) send(method, path, body string) int {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url()+path, bytes.NewBufferString(body))
	require.NoError(b.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if b.auth != "" {
		req.Header.Set("Authorization", b.auth)
	}
	resp, err := b.http.Do(req)
	require.NoError(b.t, err)
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// put asks for a lock, for long enough for any test, and does not wait for it.
func (b *bed) put(id, fields string) {
	b.t.Helper()
	status := b.send("PUT", "v1/leases/"+id+"-0000000?waitMs=0", `{"heartbeatMs":600000,`+fields+`}`)
	require.Contains(b.t, []int{200, 202}, status)
}

func (b *bed) release(id string) {
	b.t.Helper()
	require.Equal(b.t, 200, b.send("DELETE", "v1/leases/"+id+"-0000000", ""))
}
