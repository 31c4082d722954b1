package gateway

import (
	"context"
	"log"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

// peer is the other end of a connection, as requests find it in their context.
type peer struct {
	conn *net.TCPConn

	mu      sync.Mutex    // guards timeout
	timeout time.Duration // 0: that of the system
}

type peerKey struct{}

// withPeer is http.Server.ConnContext.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	for {
		switch in := c.(type) {
		case *net.TCPConn:
			return context.WithValue(ctx, peerKey{}, &peer{conn: in})
		case interface{ NetConn() net.Conn }: // of TLS, and ours
			c = in.NetConn()
		default:
			return ctx
		}
	}
}

// notice makes the connection of a request break when what is written to it is not acknowledged within d. A connection that several streams share
// keeps the shortest. Where the system cannot do that, a peer that vanishes without a word is noticed as late as the system does.
func notice(ctx context.Context, d time.Duration) {
	p, _ := ctx.Value(peerKey{}).(*peer)
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timeout == 0 || d < p.timeout {
		p.timeout = d
		setUserTimeout(p.conn, d)
	}
}

// quietLog passes on what net/http says of connections. It says much of what clients do, which is no trouble of the gateway's.
func quietLog(l *slog.Logger) *log.Logger { return log.New(httpLog{l}, "", 0) }

type httpLog struct{ l *slog.Logger }

func (w httpLog) Write(p []byte) (int, error) {
	w.l.Debug("fairlock: gateway: http", "said", strings.TrimSpace(string(p)))
	return len(p), nil
}
