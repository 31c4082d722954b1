package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/memstore"
)

func TestLeasesAreBounded(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", x)
		c.queued("b", x)
		c.queued("c", x)
		r := c.put("d", 0, x)
		require.Equal(t, 503, r.status)
		require.Equal(t, "urn:fairlock:full", r.problem(t).Type)
		require.Equal(t, "1", r.header.Get("Retry-After"))
		c.queued("b", x)
		c.release("a")
		c.queued("d", x)
		// What is over is bounded too, and by time.
		c.release("d")
		for i := range 20 {
			c.queued(fmt.Sprint("e", i), x)
			c.release(fmt.Sprint("e", i))
			b.s.mu.Lock()
			require.LessOrEqual(t, len(b.s.all), 6)
			require.LessOrEqual(t, b.s.past.all.Len(), 3)
			b.s.mu.Unlock()
		}
		require.Equal(t, 404, c.beat("e0").status)
		time.Sleep(2 * keepOver)
		synctest.Wait() // the server closes idle connections at this very moment, and a POST on one of them would not be sent again
		require.Equal(t, 404, c.beat("e19").status)
		require.Empty(t, b.s.all)
	}, func(c *Config, _ *fairlock.Config) { c.MaxLeases = 3 })
}

// TestLeasesOfOneClientAreBounded: one client cannot fill the gateway.
func TestLeasesOfOneClientAreBounded(t *testing.T) {
	bubble(t, func(b *bed) {
		c, other := b.alice(), b.client(bobToken)
		c.held("a", x)
		c.queued("b", x)
		r := c.put("c", 0, x)
		require.Equal(t, 429, r.status)
		require.Equal(t, "urn:fairlock:too-many-leases", r.problem(t).Type)
		require.Contains(t, r.problem(t).Detail, "the client has 2 leases: must have no more")
		require.Equal(t, "1", r.header.Get("Retry-After"))
		c.queued("b", x) // it has that one
		other.queued("a", x)
		other.queued("b", x)
		c.release("b")
		c.queued("c", x)
		c.release("a")
		c.release("c")
		other.held("a", x)
		other.release("a")
		other.release("b")
		require.Empty(t, b.s.liveOf)
	}, func(c *Config, _ *fairlock.Config) { c.MaxLeasesEach = 2 })
}

// TestWhatIsOverIsKeptForEach: a client that ends many leases makes the gateway forget its own, not those of another.
func TestWhatIsOverIsKeptForEach(t *testing.T) {
	bubble(t, func(b *bed) {
		c, other := b.alice(), b.client(bobToken)
		for _, lease := range []string{"a", "b"} {
			c.held(lease, x)
			c.release(lease)
		}
		for i := range 20 {
			other.held(fmt.Sprint("o", i), x)
			other.release(fmt.Sprint("o", i))
		}
		for _, lease := range []string{"a", "b"} {
			require.Equal(t, "released", c.look(lease).State)
			require.Equal(t, 410, c.put(lease, 0, x).status, "what was under way for long takes nothing")
		}
		require.Equal(t, 404, other.beat("o18").status)
		require.Equal(t, 410, other.beat("o19").status)
		time.Sleep(keepOver)
		synctest.Wait()
		require.Equal(t, 404, c.beat("a").status)
		require.Empty(t, b.s.all)
	}, func(c *Config, _ *fairlock.Config) { c.MaxLeases = 3 })
}

// TestReadsAreBounded: whoever asks for queues when as many as may are being served waits for his turn, and not for ever.
func TestReadsAreBounded(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", x)
		// The database does not answer: who reads gives up, and who waits for a turn does too.
		remove := b.store.Hook(memstore.Before, memstore.OpPage, memstore.Hang)
		began := time.Now()
		require.Equal(t, 502, c.do("GET", "/v1/locks", "").status)
		require.Equal(t, readLimit, time.Since(began))
		remove()
		gate := make(chan struct{})
		remove = b.store.Hook(memstore.Before, memstore.OpPage, func(context.Context, string) error {
			<-gate // a call of the driver that is deaf to its context
			return nil
		})
		got := make(chan int, mostReads+1)
		for range mostReads {
			go func() { got <- b.client(bobToken).do("GET", "/v1/locks", "").status }()
		}
		synctest.Wait()
		began = time.Now()
		r := c.do("GET", "/v1/queue?name=x", "")
		require.Equal(t, 503, r.status)
		require.Equal(t, "urn:fairlock:full", r.problem(t).Type)
		require.Equal(t, readLimit, time.Since(began))
		go func() { got <- c.do("GET", "/v1/queue?name=x", "").status }()
		synctest.Wait()
		require.Empty(t, got)
		remove()
		close(gate)
		for range mostReads + 1 {
			require.Contains(t, []int{200, 502}, <-got)
		}
		require.Empty(t, b.s.reads.all)
		require.Empty(t, b.s.reads.of)
	}, func(c *Config, _ *fairlock.Config) { c.Anonymous, c.Clients = true, nil })
}

// TestReadsOfOneClientAreBounded: one client that asks for queues and does not take the answers cannot keep them from others.
func TestReadsOfOneClientAreBounded(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		for i := range 60 { // more than net/http keeps for a client that does not read
			c.held(fmt.Sprint("a", i), fmt.Sprintf(`"name":"lock %d %s","heartbeatMs":600000`, i, strings.Repeat("x", 100)))
		}
		for range mostReads {
			b.raw("GET /v1/locks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + aliceToken + "\r\n\r\n")
		}
		synctest.Wait()
		began := time.Now()
		other := b.client(bobToken)
		require.Equal(t, 200, other.do("GET", "/v1/locks", "").status)
		require.Equal(t, 404, other.do("GET", "/v1/queue?name=x", "").status)
		require.Zero(t, time.Since(began))
		got := make(chan *reply, 2)
		for _, path := range []string{"/v1/locks", "/v1/queue?name=x"} {
			go func() { got <- c.do("GET", path, "") }()
		}
		for range cap(got) {
			r := <-got
			require.Equal(t, 429, r.status)
			require.Equal(t, "urn:fairlock:too-many-reads", r.problem(t).Type)
			require.Equal(t, "1", r.header.Get("Retry-After"))
			require.Equal(t, readLimit, time.Since(began))
		}
		time.Sleep(bodyLimit + answerLimit)
		require.Equal(t, 200, c.do("GET", "/v1/locks", "").status)
	})
}

func TestWaitersAreBounded(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", x)
		c.queued("b", x)
		r := c.put("c", time.Second, x)
		require.Equal(t, 429, r.status)
		require.Equal(t, "urn:fairlock:too-many-waiters", r.problem(t).Type)
		require.Equal(t, "1", r.header.Get("Retry-After"))
		require.Equal(t, tooMany, r.problem(t).Lease.Reason)
	}, func(_ *Config, f *fairlock.Config) { f.MaxWaiters = 1 })
}

func TestStreamsAreBounded(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", x)
		for range mostStreams {
			c.open("GET", "/v1/leases/"+id("a")+"/events", "").want("held")
		}
		r := c.do("GET", "/v1/leases/"+id("a")+"/events", "")
		require.Equal(t, 429, r.status)
		require.Equal(t, "urn:fairlock:too-many-streams", r.problem(t).Type)
		b.streams[0].drop()
		c.open("GET", "/v1/leases/"+id("a")+"/events", "").want("held")

		one := c.open("GET", "/v1/watch", "")
		r = c.do("GET", "/v1/watch", "")
		require.Equal(t, 503, r.status)
		require.Equal(t, "urn:fairlock:full", r.problem(t).Type)
		one.drop()
		c.open("GET", "/v1/watch", "")
	}, func(c *Config, _ *fairlock.Config) { c.MaxWatchers = 1 })
}

// TestWatchersOfOneClientAreBounded: one client cannot keep the others from the status page.
func TestWatchersOfOneClientAreBounded(t *testing.T) {
	bubble(t, func(b *bed) {
		c, other := b.alice(), b.client(eveToken)
		first := c.open("GET", "/v1/watch", "")
		c.open("GET", "/v1/watch", "")
		began := time.Now()
		r := c.do("GET", "/v1/watch", "")
		require.Equal(t, 429, r.status)
		require.Equal(t, "urn:fairlock:too-many-watchers", r.problem(t).Type)
		require.Contains(t, r.problem(t).Detail, "the client watches the gateway's status 2 times: must not do so more often")
		require.Equal(t, "5", r.header.Get("Retry-After"))
		require.Zero(t, time.Since(began))
		other.open("GET", "/v1/watch", "").want("locks")
		first.drop()
		c.open("GET", "/v1/watch", "").want("locks")
		require.Equal(t, 429, c.do("GET", "/v1/watch", "").status)
	}, func(c *Config, _ *fairlock.Config) { c.MaxWatchersEach = 2 })
}

// TestWatchersOfOneClientByDefault: a client has a quarter of the streams of the status page; where all are one client it has them all.
func TestWatchersOfOneClientByDefault(t *testing.T) {
	t.Parallel()
	clients := []Client{{Name: "a", Token: aliceToken}}
	for _, c := range []struct {
		cfg  Config
		want int
	}{
		{Config{Clients: clients}, 25},
		{Config{Clients: clients, MaxWatchers: 7}, 1},
		{Config{Clients: clients, MaxWatchers: 1}, 1},
		{Config{Clients: clients, MaxWatchers: 8, MaxWatchersEach: 8}, 8},
		{Config{Anonymous: true}, 100},
		{Config{Anonymous: true, MaxWatchersEach: 3}, 3},
	} {
		full, err := c.cfg.withDefaults()
		require.NoError(t, err)
		require.Equal(t, c.want, full.MaxWatchersEach, "%+v", c.cfg)
	}
}

// TestConnectionsAreBounded: one more than may waits until another has ended.
func TestConnectionsAreBounded(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		for i := range 2 {
			c.stream(fmt.Sprint("a", i), x)
		}
		got := make(chan int, 1)
		go func() { got <- b.client(bobToken).do("GET", "/healthz", "").status }()
		synctest.Wait()
		require.Empty(t, got)
		b.streams[0].drop()
		require.Equal(t, 200, <-got)
	}, func(c *Config, _ *fairlock.Config) { c.MaxConns = 2 })
}

// raw is a connection on which a test says what it likes.
func (b *bed) raw(text string) net.Conn {
	b.t.Helper()
	conn, err := b.ln.dial(context.Background())
	require.NoError(b.t, err)
	_, err = io.WriteString(conn, text)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestSlowClients: each costs one connection, for a bounded time.
func TestSlowClients(t *testing.T) {
	bubble(t, func(b *bed) {
		header := "PUT /v1/leases/" + id("a") + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + aliceToken +
			"\r\nContent-Type: application/json\r\n"

		began := time.Now()
		_, err := io.ReadAll(b.raw(header)) // a header that does not end
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, time.Since(began))

		began = time.Now()
		conn := b.raw(header + "Content-Length: 100\r\n\r\n{")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, 400, resp.StatusCode)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Contains(t, string(text), "did not arrive in full within 10s")
		require.Equal(t, bodyLimit, time.Since(began))

		// One that is refused before its body is read.
		for _, request := range []string{"GET /", "PUT /v1/leases/" + id("a"), "POST /nowhere"} {
			began = time.Now()
			text, err = io.ReadAll(b.raw(request + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"))
			require.NoError(t, err)
			require.NotEmpty(t, text)
			require.Equal(t, bodyLimit, time.Since(began))
		}

		// Nobody reads the events: the stream is broken off, and the place goes with it.
		began = time.Now()
		body := "{" + x + "}"
		conn = b.raw(header + "Accept: text/event-stream\r\nContent-Length: " + fmt.Sprint(len(body)) + "\r\n\r\n" + body)
		synctest.Wait()
		c := b.alice()
		next := c.stream("b", x)
		for ev := next.next(); ev.name != "held"; ev = next.next() {
		}
		require.LessOrEqual(t, time.Since(began), testHeartbeat)
		require.Equal(t, notHeard, c.look("a").Reason)
		_ = conn.Close()

		// Nobody reads an answer, be it at once or at the end of a poll.
		for _, request := range []string{
			"GET /v1/locks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + aliceToken + "\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
			strings.Replace(header, "/a-", "/unread-", 1) + "Content-Length: " + fmt.Sprint(len(body)) + "\r\n\r\n" + body,
		} {
			conn = b.raw(request)
			time.Sleep(maxPoll + answerLimit + time.Millisecond)
			_, err = conn.Write([]byte("x"))
			require.ErrorIs(t, err, io.ErrClosedPipe, "%s", request)
		}

		// A connection that does nothing.
		conn = b.raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		began = time.Now()
		_, err = io.ReadAll(conn)
		require.NoError(t, err)
		require.Equal(t, 2*time.Minute, time.Since(began))

		// A header that is too large.
		conn, err = b.ln.dial(context.Background())
		require.NoError(t, err)
		go func() { _, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nX: "+strings.Repeat("x", 64<<10)) }()
		text, err = io.ReadAll(conn)
		require.NoError(t, err)
		require.Contains(t, string(text), "431 Request Header Fields Too Large")
		_ = conn.Close()
	})
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  *Config
		want string
	}{
		{nil, "Config.Clients is empty: must have a client, or Anonymous must be set"},
		{&Config{Anonymous: true, Clients: []Client{{Name: "a", Token: aliceToken}}}, "Config.Anonymous is true: must not be set beside 1 clients"},
		{&Config{Anonymous: true, Heartbeat: time.Second}, "Config.Heartbeat is 1s: must be from 3s to 10m0s"},
		{&Config{Anonymous: true, Heartbeat: time.Hour}, "Config.Heartbeat is 1h0m0s: must be from 3s to 10m0s"},
		{&Config{Anonymous: true, MaxConns: -1}, "Config.MaxConns is -1: must not be negative"},
		{&Config{Anonymous: true, MaxConnsEach: -1}, "Config.MaxConnsEach is -1: must not be negative"},
		{&Config{Anonymous: true, MaxLeases: -1}, "Config.MaxLeases is -1: must not be negative"},
		{&Config{Anonymous: true, MaxWatchers: -1}, "Config.MaxWatchers is -1: must not be negative"},
		{&Config{Anonymous: true, MaxWatchersEach: -1}, "Config.MaxWatchersEach is -1: must not be negative"},
		{&Config{Anonymous: true, MaxLeasesEach: -1}, "Config.MaxLeasesEach is -1: must not be negative"},
		{&Config{Clients: []Client{{Name: "a b", Token: aliceToken}}}, `client's name is "a b": must be 1 to 64 letters`},
		{&Config{Clients: []Client{{Name: "a", Token: "short"}}}, `token of client is "a": must be 16 to 256 letters`},
		{&Config{Clients: []Client{{Name: "a", Token: aliceToken}, {Name: "a", Token: bobToken}}}, `client's name is "a": must not come twice`},
		{&Config{Clients: []Client{{Name: "a", Token: aliceToken}, {Name: "b", Token: aliceToken}}}, `token of client is "b": must not be another client's too`},
	} {
		_, err := New(nil, c.cfg)
		require.ErrorIs(t, err, fairlock.ErrInvalidOption)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), aliceToken)
	}
}

func TestReadClients(t *testing.T) {
	t.Parallel()
	clients, err := ReadClients(strings.NewReader("# who\n\n alice " + aliceToken + "\nwatch\t" + bobToken + " read\n"))
	require.NoError(t, err)
	require.Equal(t, []Client{{Name: "alice", Token: aliceToken}, {Name: "watch", Token: bobToken, ReadOnly: true}}, clients)
	for text, want := range map[string]string{
		"alice\n":                             "line 1 has 1 words: must be NAME TOKEN or NAME TOKEN read",
		"# x\nalice " + aliceToken + " write": "line 2 has 3 words",
		"a b c d":                             "line 1 has 4 words",
		"alice short":                         "line 1: ",
		"a " + aliceToken + "\na " + bobToken: "line 2: ",
		strings.Repeat("x", 1<<17):            "token too long",
	} {
		_, err := ReadClients(strings.NewReader(text))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), aliceToken)
	}
}
