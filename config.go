package fairlock

import (
	"log/slog"
	"time"

	"github.com/fairlock/fairlock/internal/naming"
)

// Config configures a [Manager]. The zero value, or nil, is the default. It is checked once, in [New].
type Config struct {
	// Label is shown to people beside every place in a queue that this manager takes, unless [Label] gives the
	// call one of its own. At most 255 bytes of valid UTF-8. Defaults to the name of the program.
	Label string

	// LockDelay is how long nobody is admitted after a lock was lost, in addition to the rest of its lease: for resources that cannot check tokens, and
	// for work that goes on for a while after its process is gone, such as a query that a server still runs. A lock that is given back
	// by Unlock before any loss, or by Close, has no delay, nor one that was unlocked by force. Unlock after the loss does not shorten it.
	// It is the holder's own: each process names the delay for the locks that it takes. It is a part of the lease as others see it, so the places
	// in line of a dead process stand for as much longer. From 0 to 1 h. Defaults to 0.
	LockDelay time.Duration

	// Logger receives what an operator may want to know: sessions lost, streams reopened, the dead cleared. It receives names of
	// locks and labels of processes, and never documents. The same failure is logged once a minute. Defaults to discarding.
	Logger *slog.Logger

	// Margin is how long before its lease could end for others a holder is told that it is lost: the time it
	// has to stop. At most half of TTL. Defaults to a tenth of TTL.
	Margin time.Duration

	// MaxCalls bounds how many calls of Lock and Do wait in this manager at one time, for all locks together; one more is refused with
	// [ErrTooManyWaiters] before it takes a number. It bounds memory, and what this process can add to queues.
	// Defaults to 0, no limit: a waiting call costs about as much as a goroutine, and only the program knows how many of those it
	// wants.
	MaxCalls int

	// MaxWaiters bounds how many wait for one lock (of a semaphore how many units are waited for; of a read/write lock how many writers, up to
	// 1024 readers counting as one), in all processes together, those that this manager would add included: an arrival that would
	// have to wait behind so many is refused with [ErrTooManyWaiters], and takes no number. It is judged by the server in the same
	// write, so it is exact for this manager; others can have another limit or none. A limit costs some time of each arrival, see docs/security.md.
	// Defaults to 0, no limit: queues of tens of thousands work, and any number chosen here would break somebody's.
	MaxWaiters int

	// Observer is told what the manager does, for metrics and traces. It is copied by New. Defaults to nil: nobody asks, which costs nothing.
	Observer *Observer

	// OpTimeout bounds each database call. A call that was not answered by then has an unknown outcome and is
	// repeated or left to a reaper; a shorter bound notices a frozen server sooner. After a failover, majority
	// writes of a replica set can take 2 s each for a while, so it is at least 2.5 s. Defaults to 5 s.
	OpTimeout time.Duration

	// Poll makes waiters read the lock document every PollInterval and open no change stream. It is
	// implied, with a warning, on a server that has none (a standalone mongod).
	Poll bool

	// PollInterval is the time between two reads in poll mode. From 5 ms to 10 s. Defaults to 100 ms.
	PollInterval time.Duration

	// Prefix begins the names of the three collections: Prefix + "locks", "tickets" and "sessions". Managers
	// that shall share locks need the same database and the same prefix. Defaults to "fairlock.".
	Prefix string

	// TicketDelay is how long an acquisition stays without a ticket document; up to three times as long while its turn is
	// expected soon. Of shorter waits and holds [Manager.Inspect] shows that they are there and not whose they are; they
	// save two writes. From 0 (the default is taken) to 1 s. Defaults to 1 s, or a quarter of a TTL below 4 s.
	TicketDelay time.Duration

	// TTL is the lease: a process that dies or is cut off delays those behind it by TTL at most, plus one look of a waiter (a
	// tenth of its TTL) and the time of a failover of the database. One that dies before it has written a ticket
	// (TicketDelay) delays them by the longest TTL of all who use the lock. The lease is renewed every third of TTL, with one write per process whatever it
	// holds. From 1 s to 1 h. Defaults to 30 s; a lease below 30 s can be lost to a failover of the database.
	TTL time.Duration
}

// withDefaults returns a checked copy in which no field that has a default is zero.
func (c *Config) withDefaults() (Config, error) {
	var cfg Config
	if c != nil {
		cfg = *c
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&cfg.TTL, 30*time.Second)
	def(&cfg.Margin, cfg.TTL/10)
	def(&cfg.OpTimeout, 5*time.Second)
	def(&cfg.PollInterval, 100*time.Millisecond)
	def(&cfg.TicketDelay, min(time.Second, cfg.TTL/4))
	if cfg.Prefix == "" {
		cfg.Prefix = "fairlock."
	}
	if cfg.Label == "" {
		cfg.Label = programName()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Logger = slog.New(newQuiet(cfg.Logger.Handler()))
	switch {
	case cfg.TTL < time.Second || cfg.TTL > time.Hour:
		return cfg, invalidOption("Config.TTL", cfg.TTL, "must be from 1s to 1h")
	case cfg.Margin < 0 || cfg.Margin > cfg.TTL/2:
		return cfg, invalidOption("Config.Margin", cfg.Margin, "must be positive and at most half of TTL "+cfg.TTL.String())
	case cfg.OpTimeout < 2500*time.Millisecond || cfg.OpTimeout > time.Minute:
		return cfg, invalidOption("Config.OpTimeout", cfg.OpTimeout, "must be from 2.5s to 1m")
	case cfg.PollInterval < 5*time.Millisecond || cfg.PollInterval > 10*time.Second:
		return cfg, invalidOption("Config.PollInterval", cfg.PollInterval, "must be from 5ms to 10s")
	case cfg.TicketDelay < 0 || cfg.TicketDelay > time.Second || cfg.TicketDelay > cfg.TTL/4:
		return cfg, invalidOption("Config.TicketDelay", cfg.TicketDelay, "must be from 0 to 1s and at most a quarter of TTL "+cfg.TTL.String())
	case cfg.LockDelay < 0 || cfg.LockDelay > time.Hour:
		return cfg, invalidOption("Config.LockDelay", cfg.LockDelay, "must be from 0 to 1h")
	case cfg.MaxCalls < 0:
		return cfg, invalidOption("Config.MaxCalls", cfg.MaxCalls, "must not be negative")
	case cfg.MaxWaiters < 0:
		return cfg, invalidOption("Config.MaxWaiters", cfg.MaxWaiters, "must not be negative")
	}
	if rule := naming.Prefix(cfg.Prefix); rule != "" {
		return cfg, invalidOption("Config.Prefix", quoted(cfg.Prefix), rule)
	}
	return cfg, checkLabel(cfg.Label)
}

// lease is the lease as others see it. The delay is a part of it in which its holder trusts it no more.
func (c *Config) lease() time.Duration { return c.TTL + c.LockDelay }

// rest is the time between the end of a holder's trust and the first moment at which another may be admitted in its place.
func (c *Config) rest() time.Duration { return c.Margin + c.LockDelay }
