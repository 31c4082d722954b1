package gateway

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/fairlock/fairlock"
)

// Config configures a [Server]. It is checked once, in [New].
type Config struct {
	// Anonymous lets everybody in who can reach the gateway. Without it there must be Clients.
	Anonymous bool

	// Clients are those who may use the gateway at first, each with a token. See [ReadClients], [Server.SetClients].
	Clients []Client

	// Heartbeat is the heartbeat time of leases that name none. From 3 s to 10 min. Defaults to 10 s.
	Heartbeat time.Duration

	// LocalOnly refuses requests that name the gateway otherwise than localhost or by an address: a web page that has its own name lead here is
	// kept out. It is for gateways on loopback that let everybody in.
	LocalOnly bool

	// Logger receives what an operator may want to know. It receives no tokens. Defaults to discarding.
	Logger *slog.Logger

	// MaxConns bounds the connections that Serve has at one time; more of them wait to be accepted. Defaults to 20,000.
	MaxConns int

	// MaxConnsEach bounds the connections of one IP address, of IPv6 of one /64, on all listeners; one more is closed as it is accepted. The address is
	// what RemoteAddr of a connection says in Accept: behind a proxy the proxy's. What has none is not counted. Defaults to 0, no limit but MaxConns.
	MaxConnsEach int

	// MaxLeases bounds how many leases wait or hold at one time; one more is refused with 503. Defaults to 10,000.
	MaxLeases int

	// MaxLeasesEach bounds how many of them one client has; one more is refused with 429. Whoever is let in by Anonymous is one client.
	// Defaults to 0, no limit but MaxLeases.
	MaxLeasesEach int

	// MaxWatchers bounds the streams of the status page; one more is refused with 503. Defaults to 100.
	MaxWatchers int

	// MaxWatchersEach bounds how many of them one client has; one more is refused with 429. Whoever is let in by Anonymous is one client. Defaults to a
	// quarter of MaxWatchers, but one at least; with Anonymous to MaxWatchers.
	MaxWatchersEach int

	// Metrics are those of the manager, for /metrics. nil: there are only the gateway's own.
	Metrics *Metrics

	// TLS makes Serve talk TLS, with the certificates that it has. Defaults to none.
	TLS *tls.Config
}

const (
	minHeartbeat = 3 * time.Second
	maxHeartbeat = 10 * time.Minute
)

func (c *Config) withDefaults() (Config, error) {
	var cfg Config
	if c != nil {
		cfg = *c
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 10 * time.Second
	}
	def := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&cfg.MaxConns, 20_000)
	def(&cfg.MaxLeases, 10_000)
	def(&cfg.MaxWatchers, 100)
	if cfg.Anonymous {
		def(&cfg.MaxWatchersEach, cfg.MaxWatchers)
	} else {
		def(&cfg.MaxWatchersEach, max(cfg.MaxWatchers/4, 1))
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case cfg.Heartbeat < minHeartbeat || cfg.Heartbeat > maxHeartbeat:
		return cfg, invalid("Config.Heartbeat", cfg.Heartbeat, fmt.Sprintf("must be from %v to %v", minHeartbeat, maxHeartbeat))
	case cfg.MaxConns < 0:
		return cfg, invalid("Config.MaxConns", cfg.MaxConns, "must not be negative")
	case cfg.MaxConnsEach < 0:
		return cfg, invalid("Config.MaxConnsEach", cfg.MaxConnsEach, "must not be negative")
	case cfg.MaxLeases < 0:
		return cfg, invalid("Config.MaxLeases", cfg.MaxLeases, "must not be negative")
	case cfg.MaxLeasesEach < 0:
		return cfg, invalid("Config.MaxLeasesEach", cfg.MaxLeasesEach, "must not be negative")
	case cfg.MaxWatchers < 0:
		return cfg, invalid("Config.MaxWatchers", cfg.MaxWatchers, "must not be negative")
	case cfg.MaxWatchersEach < 0:
		return cfg, invalid("Config.MaxWatchersEach", cfg.MaxWatchersEach, "must not be negative")
	}
	return cfg, cfg.checkClients()
}

func (c *Config) checkClients() error {
	switch {
	case c.Anonymous && len(c.Clients) > 0:
		return invalid("Config.Anonymous", true, fmt.Sprintf("must not be set beside %d clients", len(c.Clients)))
	case !c.Anonymous && len(c.Clients) == 0:
		return invalid("Config.Clients", "empty", "must have a client, or Anonymous must be set")
	}
	return checkClients(c.Clients)
}

// invalid matches fairlock.ErrInvalidOption.
func invalid(option string, value any, rule string) error {
	return fmt.Errorf("%w: %s is %v: %s", fairlock.ErrInvalidOption, option, value, rule)
}
