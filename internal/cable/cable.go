// Package cable is a network between a client and one server that tests can cut: a TCP proxy on loopback. While it is cut
// everything is read and nothing passed on, as behind a firewall that drops packets: no side is told.
//
// One goroutine accepts, and two carry each connection; Close ends them and waits. A client reaches a member of a replica set
// through a cable by a direct connection, since the set would otherwise tell it the member's own address.
package cable

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Cable is one proxy. Its methods may be called from many goroutines.
type Cable struct {
	listener net.Listener
	target   string
	dropping atomic.Bool
	wg       sync.WaitGroup

	mu    sync.Mutex // guards both
	conns []net.Conn
	over  bool
}

// New lays a cable to target, a host and port.
func New(target string) (*Cable, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return From(l, target), nil
}

// From lays a cable whose client's end is l. Close closes it.
func From(l net.Listener, target string) *Cable {
	c := &Cable{listener: l, target: target}
	c.wg.Go(c.accept)
	return c
}

// Addr is the client's end.
func (c *Cable) Addr() string { return c.listener.Addr().String() }

// Cut makes the network swallow everything from now on.
func (c *Cable) Cut() { c.dropping.Store(true) }

// Mend makes new connections work. Those that were cut have lost bytes in the middle, so they are closed.
func (c *Cable) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked()
	c.dropping.Store(false)
}

// Close ends all.
func (c *Cable) Close() {
	_ = c.listener.Close()
	c.mu.Lock()
	c.over = true
	c.closeLocked()
	c.mu.Unlock()
	c.wg.Wait()
}

// closeLocked closes all connections. The caller holds mu.
func (c *Cable) closeLocked() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

func (c *Cable) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !c.keep(client, server) {
			return
		}
		c.wg.Go(func() { c.carry(server, client) })
		c.wg.Go(func() { c.carry(client, server) })
	}
}

// keep notes connections for Close, or closes them if it has been called.
func (c *Cable) keep(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		for _, conn := range conns {
			_ = conn.Close()
		}
		return false
	}
	c.conns = append(c.conns, conns...)
	return true
}

func (c *Cable) carry(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	_, _ = io.Copy(end{c, to}, from)
}

// end writes unless the cable is cut.
type end struct {
	c  *Cable
	to net.Conn
}

func (e end) Write(b []byte) (int, error) {
	if e.c.dropping.Load() {
		return len(b), nil
	}
	return e.to.Write(b)
}
