package gateway

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/internal/parts"
)

// TestSilentPeer: a client is gone without a word, as one whose cable is pulled: on real sockets, on real time. Its stream breaks by what its kernel does
// not acknowledge, and the next in line waits for no longer than its heartbeat time.
func TestSilentPeer(t *testing.T) {
	t.Parallel()
	store := memstore.New(time.Now).Client()
	m, err := fairlock.Assemble(nil, parts.Parts{Clock: memstore.NewClock(), Queue: store.Queue(), Sessions: store.Sessions(), Source: store.Source()})
	require.NoError(t, err)
	s, err := New(m, &Config{Anonymous: true, Heartbeat: minHeartbeat})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	b := &bed{t: t, m: m, s: s}
	dial := func(keep **net.TCPConn) *client {
		c := b.client("")
		c.tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
			if err == nil && keep != nil {
				*keep = conn.(*net.TCPConn)
			}
			return conn, err
		}
		return c
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, s.Close(ctx))
		require.NoError(t, m.Close(ctx))
		require.NoError(t, <-served)
		for _, c := range b.clients {
			c.tr.CloseIdleConnections()
		}
	}()

	var conn *net.TCPConn
	holder := dial(&conn).stream("a", x)
	holder.holds()
	next := dial(nil).stream("b", x)
	require.Equal(t, "waiting", next.next().name)

	for range 5 { // longer than the request itself keeps it alive
		require.Equal(t, "held", holder.next().name)
	}
	deaf(t, conn)
	began := time.Now()
	require.Equal(t, "held", next.next().name)
	require.LessOrEqual(t, time.Since(began), minHeartbeat+100*time.Millisecond) // that much for this machine
	v, _, _ := s.all[leaseKey{"", id("a")}].look()
	require.Equal(t, notHeard, v.Reason)
	for _, e := range b.streams {
		e.end()
		_ = e.resp.Body.Close()
	}
}

// deaf makes the kernel drop all that comes for a connection before TCP sees it, so that nothing is acknowledged.
func deaf(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	require.NoError(t, err)
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), syscall.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
	}))
	require.NoError(t, failed)
}
