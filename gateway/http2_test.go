package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

// overTLS makes the gateway talk TLS, and with it HTTP/2, and returns the pool with its certificate.
func overTLS(t *testing.T) (func(*Config, *fairlock.Config), *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(100, 0, 0), DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	require.NoError(t, err)
	made, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(made)
	return func(c *Config, _ *fairlock.Config) {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13}
	}, pool
}

// client2 is a client that shares one connection between all its requests.
func (b *bed) client2(token string, pool *x509.CertPool) *client {
	c := b.client(token)
	c.scheme = "https"
	c.tr.ForceAttemptHTTP2 = true
	c.tr.TLSClientConfig = &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS13}
	c.tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return b.ln.dial(ctx) }
	return c
}

// TestStreamsOfHTTP2: an event stream lives on, in line and held, however seldom there is something to say on it: on HTTP/2 the time limit
// of a write ends a stream also when nothing is being written.
func TestStreamsOfHTTP2(t *testing.T) {
	t.Parallel()
	tlsOf, pool := overTLS(t)
	bubble2 := func(f func(*bed)) { alone(t, f, tlsOf) }
	bubble2(func(b *bed) {
		c := b.client2(aliceToken, pool)
		holder := c.stream("a", x)
		require.Equal(t, 2, holder.resp.ProtoMajor)
		first := holder.holds()
		next := c.stream("b", x)
		next.want("waiting")
		page := c.open("GET", "/v1/watch", "")
		page.want("locks")
		began := time.Now()
		for i := range 40 { // longer than the pauses between pings
			ev := holder.next()
			require.Equal(t, "held", ev.name, "after %v: %v", time.Since(began), ev.err)
			require.Equal(t, first.Token, ev.lease.Token)
			require.Equal(t, time.Duration(i+1)*testHeartbeat/4, time.Since(began))
		}
		for len(page.in) > 0 {
			require.Equal(t, "locks", page.next().name)
		}
		require.Equal(t, 200, c.release("a").status)
		holder.gone()
		ev := next.next()
		require.Equal(t, "held", ev.name, "%v", ev.err)
		c.release("b")
		next.gone()
		page.drop()
	})
}

// TestPollOfHTTP2: a poll of a minute is answered.
func TestPollOfHTTP2(t *testing.T) {
	t.Parallel()
	tlsOf, pool := overTLS(t)
	alone(t, func(b *bed) {
		c := b.client2(aliceToken, pool)
		c.held("a", x+`,"heartbeatMs":600000`)
		began := time.Now()
		require.Equal(t, http.StatusAccepted, c.put("b", maxPoll, x).status)
		require.Equal(t, maxPoll, time.Since(began))
	}, tlsOf)
}

// deafConn is a connection from which nothing is taken any more once deaf is closed.
type deafConn struct {
	net.Conn
	deaf, closed chan struct{}
	once         sync.Once
}

func (c *deafConn) Read(p []byte) (int, error) {
	select {
	case <-c.deaf:
		<-c.closed
		return 0, net.ErrClosed
	default:
	}
	n, err := c.Conn.Read(p)
	select {
	case <-c.deaf: // what came was in the kernel of nobody
		<-c.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (c *deafConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestDeafHTTP2: who takes nothing from a connection loses it, and its hold with it, also where streams share the connection.
func TestDeafHTTP2(t *testing.T) {
	t.Parallel()
	tlsOf, pool := overTLS(t)
	alone(t, func(b *bed) {
		c := b.client2(aliceToken, pool)
		deaf := make(chan struct{})
		c.tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := b.ln.dial(ctx)
			return &deafConn{Conn: conn, deaf: deaf, closed: make(chan struct{})}, err
		}
		holder := c.stream("a", x)
		holder.holds()
		next := b.client2(bobToken, pool).stream("b", x)
		next.want("waiting")
		close(deaf)
		began := time.Now()
		require.Equal(t, "held", next.next().name)
		const farewell = 5 * time.Second // that crypto/tls takes to say it to nobody
		require.LessOrEqual(t, time.Since(began), testHeartbeat/2+answerLimit+farewell+testHeartbeat/2)
		next.drop()
	}, tlsOf)
}
