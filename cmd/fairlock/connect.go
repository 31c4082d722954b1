package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/naming"
)

// connectLimit bounds how long a command looks for MongoDB. A URI with serverSelectionTimeoutMS can only shorten it.
const connectLimit = 15 * time.Second

// closeLimit bounds how long a command takes to give everything back when it ends. What is left then ends by its lease.
const closeLimit = 10 * time.Second

const defaultDB = "fairlock"

// shared is the flags that all commands have.
type shared struct {
	uri, db, prefix string
	verbose         bool
	cmd             *cobra.Command
}

// sharedOf reads the shared flags, with the environment as default.
func sharedOf(cmd *cobra.Command) shared {
	s := shared{cmd: cmd}
	f := cmd.Flags()
	// The flags exist, with these types: newRootCmd makes them.
	s.uri, _ = f.GetString("uri")
	s.db, _ = f.GetString("db")
	s.prefix, _ = f.GetString("prefix")
	s.verbose, _ = f.GetBool("verbose")
	s.uri = cmp.Or(s.uri, os.Getenv("FAIRLOCK_URI"), os.Getenv("MONGODB_URI"))
	return s
}

// logger is quiet unless --verbose.
func (s shared) logger() *slog.Logger {
	if !s.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return newLogger(s.cmd.ErrOrStderr())
}

func newLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// database is the one that --db or the URI names.
func (s shared) database() string { return cmp.Or(s.db, databaseOf(s.uri), defaultDB) }

// collections is what the names of the collections begin with.
func (s shared) collections() string { return cmp.Or(s.prefix, "fairlock.") }

// databaseOf is the database in a connection string: its path. Hosts and credentials have no bare slash in them.
func databaseOf(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	rest, _, _ = strings.Cut(rest, "?")
	_, path, _ := strings.Cut(rest, "/")
	if name, err := url.PathUnescape(path); err == nil {
		return name
	}
	return path
}

// opened is a manager and what it stands on.
type opened struct {
	*fairlock.Manager
	db     *mongo.Database
	client *mongo.Client
}

// client reads the connection string, and connects by it. Values that break a rule are refused before MongoDB is asked for anything.
func (s shared) client() (*mongo.Client, *options.ClientOptions, error) {
	if s.uri == "" {
		return nil, nil, usagef(s.cmd, "no MongoDB to connect to: set --uri, FAIRLOCK_URI or MONGODB_URI (\"fairlock dev\" starts one)")
	}
	if rule := naming.Database(s.database()); rule != "" {
		return nil, nil, usagef(s.cmd, "the database, of --db or the connection string, is %q: %s", s.database(), rule)
	}
	if rule := naming.Prefix(s.prefix); rule != "" {
		return nil, nil, usagef(s.cmd, "--prefix is %q: %s", s.prefix, rule)
	}
	opts := options.Client().ApplyURI(s.uri).SetAppName("fairlock")
	if err := opts.Validate(); err != nil {
		if code := codeOf(err); code == exitUnavailable {
			return nil, nil, exitf(code, "MongoDB not found: %w", err) // mongodb+srv:// asks a name server
		}
		return nil, nil, usagef(s.cmd, "bad connection string: %w", err)
	}
	client, err := mongo.Connect(opts)
	if err != nil {
		return nil, nil, usagef(s.cmd, "bad connection string: %w", err)
	}
	return client, opts, nil
}

// open makes a manager. cfg has no prefix and no logger yet.
func (s shared) open(ctx context.Context, cfg fairlock.Config) (*opened, error) {
	client, _, err := s.client()
	if err != nil {
		return nil, err
	}
	o := &opened{client: client, db: client.Database(s.database())}
	cfg.Prefix, cfg.Logger = s.prefix, s.logger()
	within, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	o.Manager, err = fairlock.New(within, o.db, &cfg)
	if err != nil {
		disconnect(ctx, client)
		return nil, err
	}
	return o, nil
}

// use makes a manager, gives it to f, and closes it. A signal ends it.
func (s shared) use(cfg fairlock.Config, f func(context.Context, *opened) error) error {
	return interruptible(s.cmd.Context(), func(ctx context.Context) (err error) {
		m, err := s.open(ctx, cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.close(ctx)) }()
		return f(ctx, m)
	})
}

// close gives everything back, or as much as it can before ctx ends.
func (o *opened) close(ctx context.Context) error {
	err := o.Close(ctx)
	disconnect(ctx, o.client)
	return err
}

// disconnect closes the connections. There is nothing left on them to wait for.
func disconnect(ctx context.Context, client *mongo.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = client.Disconnect(ctx)
}
