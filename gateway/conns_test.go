package gateway

import (
	"context"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/internal/parts"
)

// from is an address in the form that net.Addr has it.
type from string

func (from) Network() string  { return "tcp" }
func (a from) String() string { return string(a) }

// distant is a pipe that says where it comes from.
type distant struct {
	net.Conn
	addr net.Addr
}

func (d *distant) RemoteAddr() net.Addr { return d.addr }

// dialFrom is dial from an address.
func (p *pipes) dialFrom(ctx context.Context, addr net.Addr) (net.Conn, error) {
	return p.dialAs(ctx, func(c net.Conn) net.Conn { return &distant{c, addr} })
}

// clientFrom is a client at an address, which comes by a listener.
func (b *bed) clientFrom(ln *pipes, addr string) *client {
	c := b.alice()
	c.tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return ln.dialFrom(ctx, from(addr)) }
	return c
}

// refusedFrom requires that a connection from an address is closed at once.
func (b *bed) refusedFrom(ln *pipes, addr string) {
	b.t.Helper()
	began := time.Now()
	conn, err := ln.dialFrom(context.Background(), from(addr))
	require.NoError(b.t, err)
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(b.t, err, io.EOF)
	require.Zero(b.t, time.Since(began))
}

// TestConnectionsOfOneAddressAreBounded: one more is closed at once, takes no place of others, and is counted.
func TestConnectionsOfOneAddressAreBounded(t *testing.T) {
	bubble(t, func(b *bed) {
		const near, far = "192.0.2.1:1000", "192.0.2.2:1000"
		first := b.clientFrom(b.ln, near).open("GET", "/v1/watch", "")
		b.clientFrom(b.ln, "192.0.2.1:1001").open("GET", "/v1/watch", "")
		for range 10 {
			b.refusedFrom(b.ln, "192.0.2.1:1002")
		}
		began := time.Now()
		other := b.clientFrom(b.ln, far)
		got := metricsOf(other) // by the third and last place
		require.Equal(t, "10", got["fairlock_gateway_connections_refused_total"])
		require.Equal(t, "3", got["fairlock_gateway_connections"])
		require.Zero(t, time.Since(began))
		other.tr.CloseIdleConnections()
		synctest.Wait()

		// Another listener's connections count too.
		second := newPipes()
		served := make(chan error, 1)
		go func() { served <- b.s.Serve(second) }()
		b.refusedFrom(second, near)
		synctest.Wait()
		first.drop()
		b.clientFrom(second, near).open("GET", "/v1/watch", "").want("locks")
		b.refusedFrom(b.ln, near)
		b.refusedFrom(second, near)
		b.clientFrom(second, far).open("GET", "/v1/watch", "").want("locks")

		for _, e := range b.streams {
			e.drop()
		}
		require.Empty(t, b.s.from.open)
		b.close()
		require.NoError(t, <-served)
	}, func(c *Config, _ *fairlock.Config) { c.MaxConns, c.MaxConnsEach = 3, 2 })
}

// TestConnectionsWithoutLimitOfOneAddress: by default they are as many as like.
func TestConnectionsWithoutLimitOfOneAddress(t *testing.T) {
	bubble(t, func(b *bed) {
		for range 20 {
			b.clientFrom(b.ln, "192.0.2.1:1000").open("GET", "/v1/watch", "").want("locks")
		}
		require.Empty(t, b.s.from.open)
	})
}

// TestConnectionsOfOneNetwork: of IPv6 it is the /64 that counts, since one machine has all of it.
func TestConnectionsOfOneNetwork(t *testing.T) {
	bubble(t, func(b *bed) {
		b.clientFrom(b.ln, "[2001:db8:0:1::1]:1000").open("GET", "/v1/watch", "")
		b.refusedFrom(b.ln, "[2001:db8:0:1:ffff:ffff:ffff:ffff]:1000")
		b.clientFrom(b.ln, "[2001:db8:0:2::1]:1000").open("GET", "/v1/watch", "").want("locks")
		b.clientFrom(b.ln, "[::ffff:192.0.2.1]:1000").open("GET", "/v1/watch", "").want("locks")
		b.refusedFrom(b.ln, "192.0.2.1:1000")
		for range 3 { // of no address
			b.alice().open("GET", "/v1/watch", "").want("locks")
		}
	}, func(c *Config, _ *fairlock.Config) { c.MaxConnsEach = 1 })
}

func TestSourceOf(t *testing.T) {
	t.Parallel()
	for addr, want := range map[net.Addr]string{
		&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7}:                         "192.0.2.1/32", // 16 bytes, as a listener for both has it
		&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1).To4(), Port: 7}:                   "192.0.2.1/32",
		&net.TCPAddr{IP: net.ParseIP("2001:db8:1:2:3:4:5:6"), Port: 7}:            "2001:db8:1:2::/64",
		&net.TCPAddr{IP: net.ParseIP("fe80::1:2:3:4"), Port: 7, Zone: "ethernet"}: "fe80::/64",
		&net.UnixAddr{Name: "@", Net: "unix"}:                                     "",
		&net.TCPAddr{}:                                                            "",
		from(""):                                                                  "",
		nil:                                                                       "",
	} {
		got, known := sourceOf(addr)
		require.Equal(t, want != "", known, "%v", addr)
		if known {
			require.Equal(t, want, got.String())
		}
	}
}

// TestRefusedConnection: on real sockets the one that is too many is reset, so that the system keeps nothing of it.
func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	store := memstore.New(time.Now).Client()
	m, err := fairlock.Assemble(nil, parts.Parts{Clock: memstore.NewClock(), Queue: store.Queue(), Sessions: store.Sessions(), Source: store.Source()})
	require.NoError(t, err)
	s, err := New(m, &Config{Anonymous: true, MaxConnsEach: 1})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	answered := func() net.Conn {
		conn, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		require.NoError(t, err)
		return conn
	}
	first := answered()
	second, err := net.Dial("tcp", ln.Addr().String())
	if err == nil { // else it was reset before Dial could return it
		defer func() { _ = second.Close() }()
		_, err = second.Read(make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.EqualValues(t, 1, s.from.refused.Load())
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return s.conns.Load() == 0 }, time.Minute, time.Millisecond)
	answered()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, s.Close(ctx))
	require.NoError(t, m.Close(ctx))
	require.NoError(t, <-served)
}
