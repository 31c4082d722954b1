//go:build linux || darwin || freebsd

package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// proxy stands between one fairlock and the primary.
type proxy struct {
	listener net.Listener
	target   string
	dropping atomic.Bool // a black hole: everything is read and nothing passed on
	wg       sync.WaitGroup

	mu    sync.Mutex // guards both
	conns []net.Conn
	over  bool
}

// newProxy returns a proxy and the URI through it.
func newProxy(b *bench) (*proxy, string) {
	b.Helper()
	p := &proxy{target: primary(b.T)}
	var err error
	p.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	p.wg.Go(p.accept)
	b.Cleanup(p.close)
	return p, "mongodb://" + p.listener.Addr().String() + "/" + b.db.Name() + "?directConnection=true"
}

// primary is the address of the server that takes writes.
func primary(t *testing.T) string {
	t.Helper()
	var hello struct{ Primary string }
	require.NoError(t, deployment.client.Database("admin").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello))
	if hello.Primary == "" {
		return hostOf(t, deployment.uri) // no replica set
	}
	return hello.Primary
}

// blackHole makes the network swallow everything from now on.
func (p *proxy) blackHole() { p.dropping.Store(true) }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			return
		}
		p.wg.Go(func() { p.copy(server, client) })
		p.wg.Go(func() { p.copy(client, server) })
	}
}

// keep notes connections for close, or closes them if it has been called.
func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		for _, c := range conns {
			_ = c.Close()
		}
		return false
	}
	p.conns = append(p.conns, conns...)
	return true
}

func (p *proxy) copy(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	_, _ = io.Copy(gate{p, to}, from)
}

// gate writes unless the proxy is a black hole.
type gate struct {
	p  *proxy
	to net.Conn
}

func (g gate) Write(b []byte) (int, error) {
	if g.p.dropping.Load() {
		return len(b), nil
	}
	return g.to.Write(b)
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.over = true
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
