package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/internal/parts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testTTL       = 10 * time.Second
	testHeartbeat = 4 * time.Second
	aliceToken    = "alice-0123456789abcdef"
	bobToken      = "bob-0123456789abcdefgh"
	eveToken      = "eve-0123456789abcdefgh"
)

// bed is a gateway on a database in memory, on fake time, reached over pipes in place of sockets.
type bed struct {
	t       *testing.T
	srv     *memstore.Server
	store   *memstore.Client
	m       *fairlock.Manager
	s       *Server
	ln      *pipes
	served  chan error
	mu      sync.Mutex // guards clients
	clients []*client
	streams []*events
	closed  bool
	guest   bool // others use the database too, and end later
}

// bubble runs a test on fake time. At its end everything is closed, and the database must be quiet.
func bubble(t *testing.T, f func(*bed), opt ...func(*Config, *fairlock.Config)) {
	t.Parallel()
	alone(t, f, opt...)
}

// alone is bubble for several in one test.
func alone(t *testing.T, f func(*bed), opt ...func(*Config, *fairlock.Config)) {
	synctest.Test(t, func(t *testing.T) {
		defer time.AfterFunc(10*time.Hour, func() { panic("test hangs: ten hours of fake time have passed") }).Stop()
		b := newBed(t, memstore.New(time.Now), opt...)
		defer b.end()
		f(b)
	})
}

func newBed(t *testing.T, srv *memstore.Server, opt ...func(*Config, *fairlock.Config)) *bed {
	t.Helper()
	cfg := Config{
		Heartbeat: testHeartbeat,
		Clients:   []Client{{Name: "alice", Token: aliceToken}, {Name: "bob", Token: bobToken}, {Name: "eve", Token: eveToken, ReadOnly: true}},
	}
	of := fairlock.Config{TTL: testTTL, Margin: time.Second, TicketDelay: 100 * time.Millisecond, Label: "gateway"}
	for _, o := range opt {
		o(&cfg, &of)
	}
	b := &bed{t: t, srv: srv, store: srv.Client(), ln: newPipes(), served: make(chan error, 1)}
	var err error
	b.m, err = fairlock.Assemble(&of, parts.Parts{
		Clock: memstore.NewClock(), Queue: b.store.Queue(), Sessions: b.store.Sessions(), Source: b.store.Source(),
	})
	require.NoError(t, err)
	b.s, err = New(b.m, &cfg)
	require.NoError(t, err)
	go func() { b.served <- b.s.Serve(b.ln) }()
	return b
}

// beside is another gateway on the same database.
func (b *bed) beside() *bed {
	b.t.Helper()
	other := newBed(b.t, b.srv)
	other.guest = true
	return other
}

// close shuts the gateway down, as a process does that has got SIGTERM.
func (b *bed) close() {
	if b.closed {
		return
	}
	b.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := b.s.Close(ctx)
	err = errors.Join(err, b.m.Close(ctx), <-b.served)
	if !b.t.Failed() {
		require.NoError(b.t, err)
	}
}

func (b *bed) end() {
	for _, e := range b.streams {
		e.drop()
	}
	b.close()
	for _, c := range b.clients {
		c.tr.CloseIdleConnections()
	}
	synctest.Wait()
	if !b.t.Failed() {
		if !b.guest {
			require.Empty(b.t, b.srv.Unrest())
		}
		require.Zero(b.t, b.s.waits.Load())
		require.Zero(b.t, b.s.holds.Load())
		require.Zero(b.t, b.s.live)
		require.Empty(b.t, b.s.liveOf)
		require.Empty(b.t, b.s.feed.of)
		require.Empty(b.t, b.s.reads.all)
		require.Empty(b.t, b.s.reads.of)
		require.Empty(b.t, b.s.from.open)
		for end := range b.s.over {
			require.Contains(b.t, endings(), end)
		}
	}
}

// pipes is a listener without a network.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8420} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	return p.dialAs(ctx, func(c net.Conn) net.Conn { return c })
}

// dialAs is dial of a connection that its other end sees as something else.
func (p *pipes) dialAs(ctx context.Context, seen func(net.Conn) net.Conn) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- seen(theirs):
		return ours, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// client is one HTTP client.
type client struct {
	b      *bed
	tr     *http.Transport
	token  string
	scheme string
}

func (b *bed) client(token string) *client {
	c := &client{b: b, token: token, scheme: "http", tr: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.ln.dial(ctx) },
	}}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clients = append(b.clients, c)
	return c
}

func (b *bed) alice() *client { return b.client(aliceToken) }

// reply is an answer.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r *reply) lease(t *testing.T) leaseView {
	t.Helper()
	var v leaseView
	require.NoError(t, json.Unmarshal(r.body, &v), "%s", r.body)
	return v
}

func (r *reply) problem(t *testing.T) problem {
	t.Helper()
	require.Equal(t, "application/problem+json", r.header.Get("Content-Type"))
	var p problem
	require.NoError(t, json.Unmarshal(r.body, &p), "%s", r.body)
	require.Equal(t, r.status, p.Status)
	return p
}

// send sends a request and returns its answer unread. header is name, value, ...
func (c *client) send(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.scheme+"://localhost:8420"+path, in)
	require.NoError(c.b.t, err)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		} else {
			req.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := c.tr.RoundTrip(req)
	if err == nil {
		describe(c.b.t, req, resp)
	}
	return resp, err
}

// do sends a request and returns its whole answer, which must be as described.
func (c *client) do(method, path, body string, header ...string) *reply {
	c.b.t.Helper()
	resp, err := c.send(context.Background(), method, path, body, header...)
	require.NoError(c.b.t, err, "%s %s", method, path)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(c.b.t, err)
	describeBody(c.b.t, method, path, resp, text)
	return &reply{resp.StatusCode, resp.Header, text}
}

// id makes a word a lease id.
func id(word string) string { return word + "-0000000" }

// put asks for a lock, and waits for the answer for as long as said.
func (c *client) put(lease string, wait time.Duration, fields string) *reply {
	c.b.t.Helper()
	return c.do("PUT", "/v1/leases/"+id(lease)+"?waitMs="+itoa(wait.Milliseconds()), "{"+fields+"}")
}

// held requires that the lock is held at once.
func (c *client) held(lease, fields string) leaseView {
	c.b.t.Helper()
	r := c.put(lease, time.Second, fields)
	require.Equal(c.b.t, 200, r.status, "%s", r.body)
	v := r.lease(c.b.t)
	require.Equal(c.b.t, "held", v.State)
	require.Positive(c.b.t, v.LeftMs)
	return v
}

// queued requires that it is not.
func (c *client) queued(lease, fields string) {
	c.b.t.Helper()
	r := c.put(lease, 0, fields)
	require.Equal(c.b.t, 202, r.status, "%s", r.body)
	require.Equal(c.b.t, "waiting", r.lease(c.b.t).State)
}

func (c *client) release(lease string) *reply {
	c.b.t.Helper()
	return c.do("DELETE", "/v1/leases/"+id(lease), "")
}

func (c *client) beat(lease string) *reply {
	c.b.t.Helper()
	return c.do("POST", "/v1/leases/"+id(lease)+"/heartbeat", "")
}

func (c *client) look(lease string) leaseView {
	c.b.t.Helper()
	r := c.do("GET", "/v1/leases/"+id(lease), "")
	require.Equal(c.b.t, 200, r.status, "%s", r.body)
	return r.lease(c.b.t)
}

// events is an open stream. What comes is taken at once, as a client's kernel does.
type events struct {
	c    *client
	resp *http.Response
	in   chan event // closed at the end
	end  context.CancelFunc
}

// event is one of it.
type event struct {
	name  string
	lease leaseView
	data  []byte
	err   error // of the stream; then there is nothing else
}

// open opens a stream, with a connection of its own.
func (c *client) open(method, path, body string) *events {
	c.b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := c.send(ctx, method, path, body, "Accept", "text/event-stream")
	require.NoError(c.b.t, err)
	require.Equal(c.b.t, 200, resp.StatusCode)
	require.Equal(c.b.t, "text/event-stream", resp.Header.Get("Content-Type"))
	e := &events{c, resp, make(chan event, 10_000), cancel}
	go func() {
		defer close(e.in)
		in := bufio.NewReader(resp.Body)
		for ev := range readEvents(in) {
			if ev.err == nil {
				describeEvent(c.b.t, ev.name, ev.data)
			}
			e.in <- ev
		}
	}()
	c.b.streams = append(c.b.streams, e)
	return e
}

// stream asks for a lock by a stream.
func (c *client) stream(lease, fields string) *events {
	c.b.t.Helper()
	return c.open("PUT", "/v1/leases/"+id(lease), "{"+fields+"}")
}

// drop ends the stream as a client does whose process has ended.
func (e *events) drop() {
	e.end()
	_ = e.resp.Body.Close()
	synctest.Wait()
}

// readEvents reads events, up to one that has err. Comments are passed over.
func readEvents(in *bufio.Reader) iter.Seq[event] {
	return func(yield func(event) bool) {
		var ev event
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				yield(event{err: err})
				return
			}
			line = bytes.TrimSuffix(line, []byte("\n"))
			switch {
			case bytes.HasPrefix(line, []byte("event: ")):
				ev.name = string(line[7:])
			case bytes.HasPrefix(line, []byte("data: ")):
				ev.data = append([]byte(nil), line[6:]...)
			case len(line) == 0 && ev.name != "":
				if err := json.Unmarshal(ev.data, &ev.lease); err != nil {
					yield(event{err: err})
					return
				}
				if !yield(ev) {
					return
				}
				ev = event{}
			}
		}
	}
}

// next waits for the next event.
func (e *events) next() event { return <-e.in }

// last waits for the end of the hold, and is the event that told it.
func (e *events) last() event {
	ev := e.next()
	for ev.name == "held" || ev.name == "releasing" {
		ev = e.next()
	}
	return ev
}

// holds requires that the lock is held now. Of a free lock the wait may be too short to be told.
func (e *events) holds() leaseView {
	e.c.b.t.Helper()
	ev := e.next()
	if ev.name == "waiting" {
		ev = e.next()
	}
	require.NoError(e.c.b.t, ev.err)
	require.Equal(e.c.b.t, "held", ev.name, "%s", ev.data)
	return ev.lease
}

// gone requires that the lock was released, and that the stream has ended with that.
func (e *events) gone() {
	e.c.b.t.Helper()
	require.Equal(e.c.b.t, "released", e.last().name)
	e.over()
}

// want requires that the next event is of a kind, and comes without a wait.
func (e *events) want(name string) event {
	e.c.b.t.Helper()
	began := time.Now()
	ev := e.next()
	require.NoError(e.c.b.t, ev.err, "want %s", name)
	require.Equal(e.c.b.t, name, ev.name, "%s", ev.data)
	require.Zero(e.c.b.t, time.Since(began), "came late")
	return ev
}

// over requires that the stream ends now.
func (e *events) over() {
	e.c.b.t.Helper()
	require.ErrorIs(e.c.b.t, e.next().err, io.EOF)
	e.end()
	_ = e.resp.Body.Close()
}
