//go:build linux || darwin || freebsd

package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startServe returns a running gateway and its address, which it has printed, alone, on standard output.
func startServe(b *bench, args ...string) (*proc, string) {
	b.Helper()
	p := b.start(append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	b.eventually(func() bool { return strings.HasSuffix(p.output(), "\n") }, "the address")
	return p, strings.TrimSuffix(p.output(), "/\n")
}

// ask sends one request and reads its answer.
func ask(b *bench, client *http.Client, method, url, body string, header ...string) (int, map[string]any) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.ctx(), method, url, strings.NewReader(body))
	require.NoError(b, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	require.NoError(b, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	var v map[string]any
	_ = json.Unmarshal(text, &v)
	return resp.StatusCode, v
}

// text is what is at an address.
func text(b *bench, client *http.Client, url string) string {
	b.Helper()
	resp, err := client.Get(url)
	require.NoError(b, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(b, 200, resp.StatusCode)
	body, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	return string(body)
}

// follow opens a stream, and returns its events: name and data.
func follow(b *bench, url, body string) <-chan [2]string {
	b.Helper()
	ctx, cancel := context.WithCancel(b.ctx())
	req, err := http.NewRequestWithContext(ctx, "PUT", url, strings.NewReader(body))
	require.NoError(b, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	tr := &http.Transport{}
	resp, err := tr.RoundTrip(req)
	require.NoError(b, err)
	require.Equal(b, 200, resp.StatusCode)
	events := make(chan [2]string, 1000)
	done := make(chan struct{})
	b.Cleanup(func() {
		cancel()
		<-done
		tr.CloseIdleConnections()
	})
	go func() {
		defer close(done)
		defer close(events)
		defer func() { _ = resp.Body.Close() }()
		in := bufio.NewScanner(resp.Body)
		var ev [2]string
		for in.Scan() {
			switch line := in.Text(); {
			case strings.HasPrefix(line, "event: "):
				ev[0] = line[7:]
			case strings.HasPrefix(line, "data: "):
				ev[1] = line[6:]
			case line == "" && ev[0] != "":
				events <- ev
				ev = [2]string{}
			}
		}
	}()
	return events
}

// await waits for an event of that name; others before it are passed over.
func await(b *bench, events <-chan [2]string, name string) string {
	b.Helper()
	limit := time.After(long)
	for {
		select {
		case ev, ok := <-events:
			require.True(b, ok, "the stream has ended before %q", name)
			if ev[0] == name {
				return ev[1]
			}
		case <-limit:
			require.FailNow(b, "no event "+name)
		}
	}
}

// TestServe: locks over HTTP, in one queue with those who take them otherwise; SIGTERM hands on what is held, and tells those who listen.
func TestServe(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			b := newBench(t)
			p, url := startServe(b)
			require.Regexp(t, `^http://127\.0\.0\.1:\d+$`, url)
			client := &http.Client{Transport: &http.Transport{}}
			t.Cleanup(client.CloseIdleConnections)
			first := b.lock("job")
			events := follow(b, url+"/v1/leases/stream-00", `{"name":"job","label":"curl"}`)
			await(b, events, "waiting")
			status, v := ask(b, client, "PUT", url+"/v1/leases/polled-00?waitMs=0", `{"name":"job"}`)
			require.Equal(t, 202, status)
			require.Equal(t, "waiting", v["state"])
			b.queued("job", 2)
			b.unlock(first)
			require.Contains(t, await(b, events, "held"), `"state":"held"`)
			status, v = ask(b, client, "GET", url+"/v1/queue?name=job", "")
			require.Equal(t, 200, status)
			require.EqualValues(t, 1, v["held"])
			require.EqualValues(t, 1, v["waiting"])
			b.start("run", "--no-wait", "job", "--", "true").exits(75)
			status, v = ask(b, client, "GET", url+"/readyz", "")
			require.Equal(t, 200, status)
			require.Equal(t, "ok", v["status"])
			require.Contains(t, text(b, client, url+"/metrics"), "\nfairlock_held 1\n")

			began := time.Now()
			p.signal(sig)
			next := b.lock("job")
			took := time.Since(began)
			require.Contains(t, await(b, events, "closing"), `"reason":"closing"`)
			p.exits(0)
			require.Less(t, took, handOverLimit)
			b.unlock(next)
			b.free("job")
			_, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
		})
	}
}

// TestServeKilled: a gateway that is killed holds others up for its lease, and no longer.
func TestServeKilled(t *testing.T) {
	b := newBench(t)
	p, url := startServe(b, "--ttl", brief)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	status, v := ask(b, client, "PUT", url+"/v1/leases/polled-00", `{"name":"job"}`)
	require.Equal(t, 200, status)
	require.LessOrEqual(t, v["leftMs"], float64(3000), "no longer than the gateway itself can be sure")
	b.known("job")
	p.signal(syscall.SIGKILL)
	p.exits(-1)
	b.unlock(b.lock("job"))
}

// TestServeTokensAndTLS: who has no token is not let in, and a renewed certificate is taken.
func TestServeTokensAndTLS(t *testing.T) {
	b := newBench(t)
	require.NoError(t, os.WriteFile(b.path("tokens"), []byte("alice 0123456789abcdef\nwatch fedcba9876543210 read\n"), 0o600))
	pool := x509.NewCertPool()
	certificate(b, pool, 1)
	p, url := startServe(b, "--token-file", "tokens", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
	require.Regexp(t, `^https://127\.0\.0\.1:\d+$`, url)
	dial := func() (*http.Client, func()) {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
		return &http.Client{Transport: tr}, tr.CloseIdleConnections
	}
	client, end := dial()
	lease := url + "/v1/leases/polled-00"
	status, _ := ask(b, client, "PUT", lease, `{"name":"job"}`)
	require.Equal(t, 401, status)
	status, _ = ask(b, client, "PUT", lease, `{"name":"job"}`, "Authorization", "Bearer fedcba9876543210")
	require.Equal(t, 403, status)
	status, _ = ask(b, client, "PUT", lease, `{"name":"job"}`, "Authorization", "Bearer 0123456789abcdef")
	require.Equal(t, 200, status)
	status, _ = ask(b, client, "GET", url+"/v1/locks", "", "Authorization", "Bearer fedcba9876543210")
	require.Equal(t, 200, status)

	// A stream outlives the time limit of each of its writes, which is a quarter of the heartbeat time.
	req, err := http.NewRequestWithContext(b.ctx(), "PUT", url+"/v1/leases/stream-00", strings.NewReader(`{"name":"other","heartbeatMs":3000}`))
	require.NoError(t, err)
	req.Header = http.Header{"Authorization": {"Bearer 0123456789abcdef"}, "Content-Type": {"application/json"}, "Accept": {"text/event-stream"}}
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.Equal(t, 2, resp.ProtoMajor)
	in := bufio.NewScanner(resp.Body)
	for held := 0; held < 4; {
		require.True(t, in.Scan(), "the stream has ended after %d events: %v", held, in.Err())
		if in.Text() == "event: held" {
			held++
		}
	}
	require.NoError(t, resp.Body.Close())
	end()

	// A file that is half written changes nothing; the new pair is served when it is complete.
	require.NoError(t, os.WriteFile(b.path("cert.pem"), []byte("-----BEGIN CERT"), 0o600))
	serial := func() int64 {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{RootCAs: pool})
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		require.Equal(t, "h2", protocol(t, url, pool))
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	require.EqualValues(t, 1, serial())
	certificate(b, pool, 2)
	b.eventually(func() bool { return serial() == 2 }, "the new certificate")
	p.signal(syscall.SIGTERM)
	p.exits(0)
	require.NotContains(t, p.errors(), "0123456789abcdef")
	require.NotContains(t, p.errors(), "warning")
}

// protocol is what TLS agrees on when both are offered.
func protocol(t *testing.T, url string, pool *x509.CertPool) string {
	conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{RootCAs: pool, NextProtos: []string{"h2", "http/1.1"}})
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().NegotiatedProtocol
}

// certificate writes a new one for loopback, and adds it to the pool.
func certificate(b *bench, pool *x509.CertPool, serial int64) {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(b, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	require.NoError(b, err)
	made, err := x509.ParseCertificate(der)
	require.NoError(b, err)
	pool.AddCert(made)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(b, err)
	write := func(file, kind string, text []byte) {
		require.NoError(b, os.WriteFile(b.path(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text}), 0o600))
	}
	write("cert.pem", "CERTIFICATE", der)
	write("key.pem", "PRIVATE KEY", secret)
}

// TestServeReadsTokensAgain: who is in the file is let in, whatever it had in it before; a file that breaks a rule changes nothing.
func TestServeReadsTokensAgain(t *testing.T) {
	b := newBench(t)
	tokens := func(text string) {
		require.NoError(t, os.WriteFile(b.path("new"), []byte(text), 0o600))
		require.NoError(t, os.Rename(b.path("new"), b.path("tokens")))
	}
	tokens("alice 0123456789abcdef\n")
	p, url := startServe(b, "--token-file", "tokens")
	defer http.DefaultClient.CloseIdleConnections()
	answers := func(token string, status int) bool {
		got, _ := ask(b, http.DefaultClient, "PUT", url+"/v1/leases/lease-00?waitMs=1000", `{"name":"job"}`, "Authorization", "Bearer "+token)
		return got == status
	}
	require.True(t, answers("0123456789abcdef", 200))
	tokens("alice 0123\n")
	b.eventually(func() bool { return strings.Contains(p.errors(), "tokens was changed and is not taken: line 1: ") }, "the rule")
	require.NotContains(t, p.errors(), "0123")
	require.True(t, answers("0123456789abcdef", 200))
	tokens("alice fedcba9876543210\nbob 0123456789abcdef\n")
	b.eventually(func() bool { return answers("fedcba9876543210", 200) }, "the new token, with the lease of before")
	require.True(t, answers("0123456789abcdef", 202), "bob stands in line")
	b.eventually(func() bool { return strings.Contains(p.errors(), "tokens was read again: 2 clients") }, "it is said")
	require.NoError(t, os.Remove(b.path("tokens")))
	b.eventually(func() bool { return strings.Contains(p.errors(), "no such file") }, "that it is away")
	require.True(t, answers("fedcba9876543210", 200))
	for _, token := range []string{"0123456789abcdef", "fedcba9876543210"} {
		status, _ := ask(b, http.DefaultClient, "DELETE", url+"/v1/leases/lease-00", "", "Authorization", "Bearer "+token)
		require.Equal(t, 200, status)
	}
	p.signal(syscall.SIGTERM)
	p.exits(0)
}

// TestServeLimits: what is said on the command line of one client and of one address is what they get.
func TestServeLimits(t *testing.T) {
	b := newBench(t)
	require.NoError(t, os.WriteFile(b.path("tokens"), []byte("alice 0123456789abcdef\n"), 0o600))
	p, url := startServe(b, "--token-file", "tokens", "--max-watchers-each", "1", "--max-leases-each", "1", "--max-conns-each", "2")
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	t.Cleanup(client.CloseIdleConnections)
	auth := []string{"Authorization", "Bearer 0123456789abcdef"}
	req, err := http.NewRequestWithContext(b.ctx(), "GET", url+"/v1/watch", nil)
	require.NoError(t, err)
	req.Header.Set(auth[0], auth[1])
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	watch, err := tr.RoundTrip(req)
	require.NoError(t, err)
	defer func() { _ = watch.Body.Close() }()
	require.Equal(t, 200, watch.StatusCode)

	status, v := ask(b, client, "GET", url+"/v1/watch", "", auth...)
	require.Equal(t, 429, status)
	require.Equal(t, "urn:fairlock:too-many-watchers", v["type"])
	status, _ = ask(b, client, "PUT", url+"/v1/leases/lease-00", `{"name":"job"}`, auth...)
	require.Equal(t, 200, status)
	status, v = ask(b, client, "PUT", url+"/v1/leases/lease-01", `{"name":"other"}`, auth...)
	require.Equal(t, 429, status)
	require.Equal(t, "urn:fairlock:too-many-leases", v["type"])
	status, _ = ask(b, client, "DELETE", url+"/v1/leases/lease-00", "", auth...)
	require.Equal(t, 200, status)

	third, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err == nil { // else it was reset before Dial could return it
		defer func() { _ = third.Close() }()
		_, err = third.Read(make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
	p.signal(syscall.SIGTERM)
	p.exits(0)
}

// TestServeWarns: what is most likely not meant is said, and the port in use is told.
func TestServeWarns(t *testing.T) {
	b := newBench(t)
	require.NoError(t, os.WriteFile(b.path("tokens"), []byte("alice 0123456789abcdef\n"), 0o644))
	require.NoError(t, os.Chmod(b.path("tokens"), 0o644))
	p := b.start("serve", "--listen", "0.0.0.0:0", "--token-file", "tokens")
	b.eventually(func() bool { return strings.HasSuffix(p.output(), "\n") }, "the address")
	require.Contains(t, p.errors(), "warning: without --tls-cert")
	require.Contains(t, p.errors(), "warning: every user of this machine can read tokens")
	_, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(p.output(), "http://"), "/\n"))
	require.NoError(t, err)
	other := b.start("serve", "--listen", "0.0.0.0:"+port, "--no-auth")
	other.exits(69)
	require.Contains(t, other.errors(), "cannot listen: listen tcp 0.0.0.0:"+port)
	p.signal(syscall.SIGTERM)
	p.exits(0)

	p = b.start("serve", "--listen", "0.0.0.0:0", "--no-auth")
	b.eventually(func() bool { return strings.HasSuffix(p.output(), "\n") }, "the address")
	require.Contains(t, p.errors(), "warning: --no-auth: whoever can connect")
	p.signal(syscall.SIGTERM)
	p.exits(0)
}
