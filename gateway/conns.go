package gateway

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// limited is a listener with a bound on its connections, and on those of one address.
type limited struct {
	net.Listener
	slots  chan struct{}
	open   *atomic.Int64
	from   *addresses
	closed chan struct{}
	once   sync.Once
}

// limitConns bounds the connections of a listener, and counts them in open and from.
func limitConns(ln net.Listener, n int, open *atomic.Int64, from *addresses) net.Listener {
	return &limited{Listener: ln, slots: make(chan struct{}, n), open: open, from: from, closed: make(chan struct{})}
}

// Accept waits for a free slot first: what is not accepted waits in the system's queue, and is refused by the system when that is full. One more of an
// address than may is accepted, since nobody can see before whose it is, and closed: left in the queue it would keep those behind it waiting.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, err
		}
		leave, ok := l.from.enter(c)
		if !ok {
			refuse(c)
			continue // with the slot
		}
		l.open.Add(1)
		return &slotted{Conn: c, free: sync.OnceFunc(func() {
			leave()
			l.open.Add(-1)
			<-l.slots
		})}, nil
	}
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// refuse closes a connection on which nothing was said yet. It does not block, and nothing of the connection stays in the system: whoever closes first keeps
// it for a minute otherwise (TIME_WAIT), and one who comes again and again would fill that table.
func refuse(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // cannot fail for an open socket
	}
	_ = c.Close()
}

// slotted is a connection that has a slot.
type slotted struct {
	net.Conn
	free func()
}

func (c *slotted) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// NetConn is the connection beneath, as of tls.Conn.
func (c *slotted) NetConn() net.Conn { return c.Conn }

// addresses counts the connections of each address, on all listeners of a server.
type addresses struct {
	most    int          // of one; 0: no limit, and none is counted
	refused atomic.Int64 // connections that were too many

	mu   sync.Mutex // guards open
	open map[netip.Prefix]int
}

func newAddresses(most int) *addresses { return &addresses{most: most, open: map[netip.Prefix]int{}} }

// enter counts a connection until leave, unless its address has as many as it may.
func (a *addresses) enter(c net.Conn) (leave func(), ok bool) {
	if a.most == 0 {
		return func() {}, true
	}
	from, known := sourceOf(c.RemoteAddr())
	if !known {
		return func() {}, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[from] >= a.most {
		a.refused.Add(1)
		return nil, false
	}
	a.open[from]++
	return func() { a.leave(from) }, true
}

func (a *addresses) leave(from netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	less(a.open, from)
}

// sourceOf is what a connection's address counts as: IPv4 itself, also where it is written as IPv6; IPv6 its /64, in which one machine can have any. What is no
// IP address (a socket of this machine, a pipe) is not known.
func sourceOf(addr net.Addr) (netip.Prefix, bool) {
	if addr == nil {
		return netip.Prefix{}, false
	}
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Prefix{}, false
	}
	ip, bits := at.Addr().Unmap(), 64
	if ip.Is4() {
		bits = 32
	}
	p, err := ip.Prefix(bits)
	return p, err == nil
}
