package lab_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/integration/faults/lab"
)

func newNetwork(t *testing.T, hosts int, seed uint64) (*lab.Network, []*lab.Host) {
	t.Helper()
	n, err := lab.NewNetwork(seed)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	var all []*lab.Host
	for range hosts {
		h, err := n.Add()
		require.NoError(t, err)
		all = append(all, h)
	}
	return n, all
}

// echo is a server on a host, and how to dial it from another.
func echo(t *testing.T, on *lab.Host) (dial func(from *lab.Host, timeout time.Duration) (net.Conn, error)) {
	t.Helper()
	var l net.Listener
	require.NoError(t, on.Do(func() (err error) {
		l, err = net.Listen("tcp4", net.JoinHostPort(on.IP(), "0"))
		return err
	}))
	var wg sync.WaitGroup
	var mu sync.Mutex // guards conns
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() { _, _ = io.Copy(c, c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close() // the other end may be out of reach
		}
		mu.Unlock()
		wg.Wait()
	})
	return func(from *lab.Host, timeout time.Duration) (c net.Conn, err error) {
		err = from.Do(func() (err error) {
			c, err = net.DialTimeout("tcp4", l.Addr().String(), timeout)
			return err
		})
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
		return c, err
	}
}

func roundTrip(c net.Conn, within time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func TestCutAndMend(t *testing.T) {
	t.Parallel()
	n, h := newNetwork(t, 3, 1)
	dial := echo(t, h[0])
	c, err := dial(h[1], limit)
	require.NoError(t, err)
	require.NoError(t, roundTrip(c, limit))

	n.Set(h[0], h[1], lab.Link{Down: true})
	require.ErrorIs(t, roundTrip(c, 300*time.Millisecond), os.ErrDeadlineExceeded)
	_, err = dial(h[1], 300*time.Millisecond)
	var timeout net.Error
	require.True(t, errors.As(err, &timeout) && timeout.Timeout(), "nobody is told: %v", err)
	other, err := dial(h[2], limit)
	require.NoError(t, err, "the cut is between two hosts only")
	require.NoError(t, roundTrip(other, limit))

	n.Set(h[0], h[1], lab.Link{})
	// The byte that was lost is repeated by TCP and comes first.
	require.NoError(t, roundTrip(c, limit))
	_, err = io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err)
	_, err = dial(h[1], limit)
	require.NoError(t, err)

	n.Isolate(h[2], lab.Link{Down: true})
	require.ErrorIs(t, roundTrip(other, 300*time.Millisecond), os.ErrDeadlineExceeded)
	require.NoError(t, roundTrip(c, limit))

	// One way: what h[1] says arrives, and no answer comes back.
	n.SetOneWay(h[0], h[1], lab.Link{Down: true})
	passed := n.Traffic().Passed
	require.ErrorIs(t, roundTrip(c, 300*time.Millisecond), os.ErrDeadlineExceeded)
	require.Greater(t, n.Traffic().Passed, passed)
}

func TestDelay(t *testing.T) {
	t.Parallel()
	n, h := newNetwork(t, 2, 1)
	const delay = 150 * time.Millisecond
	dial := echo(t, h[0])
	c, err := dial(h[1], limit)
	require.NoError(t, err)
	n.Set(h[0], h[1], lab.Link{Delay: delay})
	begin := time.Now()
	require.NoError(t, roundTrip(c, limit))
	require.GreaterOrEqual(t, time.Since(begin), 2*delay)

	begin = time.Now()
	n.Set(h[0], h[1], lab.Link{})
	require.NoError(t, roundTrip(c, limit))
	require.Less(t, time.Since(begin), 2*delay)
}

// TestLoss: half of the packets are lost, the same ones for the same seed, and TCP gets a megabyte through a twentieth.
func TestLoss(t *testing.T) {
	t.Parallel()
	const packets = 200 // less than any queue holds
	arrived := func(seed uint64) []byte {
		n, h := newNetwork(t, 2, seed)
		n.SetOneWay(h[0], h[1], lab.Link{Loss: 0.5})
		var to, from net.Conn
		require.NoError(t, h[1].Do(func() error {
			c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(h[1].IP()), Port: 9})
			to = c
			return err
		}))
		defer func() { _ = to.Close() }()
		require.NoError(t, h[0].Do(func() (err error) {
			from, err = net.Dial("udp4", net.JoinHostPort(h[1].IP(), "9"))
			return err
		}))
		defer func() { _ = from.Close() }()
		for i := range packets {
			_, err := from.Write([]byte{byte(i)})
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool {
			c := n.Traffic()
			return c.Passed+c.Dropped >= packets
		}, limit, time.Millisecond)
		var got []byte
		require.NoError(t, to.SetReadDeadline(time.Now().Add(limit)))
		for range n.Traffic().Passed {
			one := make([]byte, 1)
			_, err := to.Read(one)
			require.NoError(t, err)
			got = append(got, one...)
		}
		return got
	}
	first := arrived(7)
	require.InDelta(t, packets/2, len(first), packets/4)
	require.Equal(t, first, arrived(7))
	require.NotEqual(t, first, arrived(8))

	n, h := newNetwork(t, 2, 7)
	n.Set(h[0], h[1], lab.Link{Loss: 0.05})
	c, err := echo(t, h[0])(h[1], limit)
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(limit)))
	const size = 1 << 20
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, size))
		sent <- err
	}()
	_, err = io.ReadFull(c, make([]byte, size))
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.Positive(t, n.Traffic().Dropped)
}

// TestNamespaceGoes: a host's namespace is there for its processes, and gone after the network and they are.
func TestNamespaceGoes(t *testing.T) {
	t.Parallel()
	n, h := newNetwork(t, 1, 1)
	own, err := netOf(os.Getpid())
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started, wrapped := exec.CommandContext(ctx, "sleep", "1000"), exec.CommandContext(ctx, "sleep", "1000")
	require.NoError(t, h[0].Start(started))
	require.NoError(t, h[0].Wrap(wrapped))
	require.NoError(t, wrapped.Start())
	ns, err := netOf(started.Process.Pid)
	require.NoError(t, err)
	require.NotEqual(t, own, ns)
	require.Eventually(t, func() bool {
		other, err := netOf(wrapped.Process.Pid)
		return err == nil && other == ns
	}, limit, time.Millisecond, "nsenter enters")
	require.NoError(t, n.Close())
	require.True(t, inUse(ns), "its processes live")
	cancel()
	require.Error(t, started.Wait())
	require.Error(t, wrapped.Wait())
	require.Eventually(t, func() bool { return !inUse(ns) }, limit, 5*time.Millisecond)
	_, err = n.Add()
	require.ErrorContains(t, err, "closed")
}
