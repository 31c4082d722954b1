package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/gateway"
)

// serveFlags is what the command line of serve says, checked.
type serveFlags struct {
	listen, tokenFile, tlsCert, tlsKey   string
	noAuth                               bool
	ttl, heartbeat                       time.Duration
	maxLeases, maxLeasesEach, maxWaiters int
	maxConns, maxConnsEach               int
	maxWatchers, maxWatchersEach         int

	exposed bool      // others than this machine can connect
	shared  bool      // others than its owner can read the token file
	tokens  fileStamp // of the token file, before it was read
}

func (f *serveFlags) define(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", "127.0.0.1:8420", "address to listen on, HOST:PORT; port 0 chooses one")
	fl.StringVar(&f.tokenFile, "token-file", "", "file with the clients and their tokens")
	fl.BoolVar(&f.noAuth, "no-auth", false, "let everybody in who can connect")
	fl.StringVar(&f.tlsCert, "tls-cert", "", "file with the certificate, PEM; it and the key are read again when they change")
	fl.StringVar(&f.tlsKey, "tls-key", "", "file with its key, PEM")
	fl.DurationVar(&f.ttl, "ttl", 30*time.Second, "lease of the gateway, 1s to 1h: how long all its clients' locks stay when it is killed")
	fl.DurationVar(&f.heartbeat, "heartbeat", 10*time.Second, "heartbeat time of clients that name none, 3s to 10m")
	fl.IntVar(&f.maxLeases, "max-leases", 10_000, "how many may wait and hold at one time")
	fl.IntVar(&f.maxLeasesEach, "max-leases-each", 0, "how many of them one client of the token file may have (default no limit)")
	fl.IntVar(&f.maxWaiters, "max-waiters", 0, "how many may wait for one lock, those of others included (default no limit)")
	fl.IntVar(&f.maxConns, "max-conns", 20_000, "how many may be connected at one time")
	fl.IntVar(&f.maxConnsEach, "max-conns-each", 0, "how many of them one IP address (IPv6: its /64) may have (default no limit)")
	fl.IntVar(&f.maxWatchers, "max-watchers", 100, "how many may have the status page open at one time")
	fl.IntVar(&f.maxWatchersEach, "max-watchers-each", 0, "how many of them one client of the token file may have (default a quarter)")
	for _, name := range []string{"max-leases-each", "max-waiters", "max-conns-each", "max-watchers-each"} {
		fl.Lookup(name).DefValue = "0" // which is not shown: the default is said above
	}
}

// check refuses what breaks a rule, and is the gateway's configuration.
func (f *serveFlags) check(cmd *cobra.Command) (*gateway.Config, error) {
	bad := func(format string, args ...any) (*gateway.Config, error) { return nil, usagef(cmd, format, args...) }
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return bad("--listen is %q: must be HOST:PORT", f.listen)
	}
	f.exposed = !loopback(host)
	switch {
	case f.ttl < time.Second || f.ttl > time.Hour:
		return bad("--ttl is %v: must be from 1s to 1h", f.ttl)
	case f.heartbeat < 3*time.Second || f.heartbeat > 10*time.Minute:
		return bad("--heartbeat is %v: must be from 3s to 10m", f.heartbeat)
	case f.maxLeases < 1:
		return bad("--max-leases is %d: must be positive", f.maxLeases)
	case f.maxLeasesEach < 0:
		return bad("--max-leases-each is %d: must not be negative", f.maxLeasesEach)
	case f.maxLeasesEach > 0 && f.tokenFile == "":
		return bad("--max-leases-each is %d: must not be set without --token-file, since all are one client then", f.maxLeasesEach)
	case f.maxWaiters < 0:
		return bad("--max-waiters is %d: must not be negative", f.maxWaiters)
	case f.maxConns < 1:
		return bad("--max-conns is %d: must be positive", f.maxConns)
	case f.maxConnsEach < 0:
		return bad("--max-conns-each is %d: must not be negative", f.maxConnsEach)
	case f.maxWatchers < 1:
		return bad("--max-watchers is %d: must be positive", f.maxWatchers)
	case f.maxWatchersEach < 1 && cmd.Flags().Changed("max-watchers-each"): // 0 would not be what it is to the others
		return bad("--max-watchers-each is %d: must be positive", f.maxWatchersEach)
	case f.maxWatchersEach > 0 && f.tokenFile == "":
		return bad("--max-watchers-each is %d: must not be set without --token-file, since all are one client then", f.maxWatchersEach)
	case (f.tlsCert == "") != (f.tlsKey == ""):
		return bad("--tls-cert is %q and --tls-key is %q: must both be set, or neither", f.tlsCert, f.tlsKey)
	case f.noAuth && f.tokenFile != "":
		return bad("--no-auth and --token-file %s exclude each other", f.tokenFile)
	case f.exposed && !f.noAuth && f.tokenFile == "":
		return bad("--listen is %q, where others can connect: --token-file must say who may; --no-auth lets everybody in", f.listen)
	}
	cfg := &gateway.Config{
		Heartbeat: f.heartbeat, Logger: sharedOf(cmd).logger(),
		MaxLeases: f.maxLeases, MaxLeasesEach: f.maxLeasesEach,
		MaxConns: f.maxConns, MaxConnsEach: f.maxConnsEach, MaxWatchers: f.maxWatchers, MaxWatchersEach: f.maxWatchersEach,
		Metrics: gateway.NewMetrics(),
		// A page in a browser of this machine can connect too, under a name of its own that leads here.
		Anonymous: f.tokenFile == "", LocalOnly: f.tokenFile == "" && !f.noAuth,
	}
	if f.tokenFile != "" {
		f.tokens = stampOf(f.tokenFile)
		if cfg.Clients, err = f.clients(); err != nil {
			return bad("--token-file %s: %w", f.tokenFile, err)
		}
	}
	if f.tlsCert != "" {
		keys := &keyPair{cert: f.tlsCert, key: f.tlsKey}
		if _, err := keys.get(nil); err != nil {
			return bad("--tls-cert %s, --tls-key %s: %w", f.tlsCert, f.tlsKey, err)
		}
		cfg.TLS = &tls.Config{GetCertificate: keys.get, MinVersion: tls.VersionTLS12}
	}
	return cfg, nil
}

// loopback reports whether only this machine can connect to the host.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

func (f *serveFlags) clients() ([]gateway.Client, error) {
	file, err := os.Open(f.tokenFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	f.shared = info.Mode().Perm()&0o007 != 0
	clients, err := gateway.ReadClients(file)
	if err == nil && len(clients) == 0 {
		err = fmt.Errorf("has no client: must have one at least")
	}
	return clients, err
}

// warn says what is most likely not meant.
func (f *serveFlags) warn(tell func(string, ...any)) {
	if f.exposed && f.tlsCert == "" {
		tell("warning: without --tls-cert, whoever is between a client and this gateway reads and changes what they say, tokens included")
	}
	if f.exposed && f.noAuth {
		tell("warning: --no-auth: whoever can connect can take, release and look at every lock")
	}
	if f.shared {
		tell("warning: every user of this machine can read %s", f.tokenFile)
	}
}

// url is where the gateway is.
func (f *serveFlags) url(addr net.Addr) string {
	scheme := "http"
	if f.tlsCert != "" {
		scheme = "https"
	}
	return scheme + "://" + addr.String() + "/"
}
