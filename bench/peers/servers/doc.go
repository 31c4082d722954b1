// Package servers starts the servers that the other lock libraries need, as real processes with real data folders on the machine's disk,
// and fetches or builds the ones that are missing.
//
//	redis      1 redis-server, append-only file on, fsync every second, no snapshots. From PATH, else from Debian's packages, which
//	           are unpacked into the cache folder and not installed
//	etcd       3 members, default options. Built with go from the module beside this package (etcdserver)
//	postgres   1 server, default settings but for max_connections and autovacuum. From PATH, else /usr/lib/postgresql
//	zookeeper  3 servers, default settings. Run from the jars that package peers/java fetches
//
// How safe a lock is, if a machine fails, is thus not the same: etcd and ZooKeeper have it on the disks of two members before they
// answer, as MongoDB does with majority writes; Redis may lose its last second; PostgreSQL keeps advisory locks in memory.
//
// # Processes
//
// Each server set has one folder for its data and one process group, led by a watcher (internal/guard) that ends the whole group when this
// process has ended, however it did. [Server.Stop] ends them in their own way first.
package servers

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/bench/run"
)

// Server is one set of server processes. It implements run.Server.
type Server struct {
	name    string
	target  string
	version string
	group   *group
	ops     func(ctx context.Context) (map[string]int64, error)
	end     func() // frees what ops uses; nil: nothing to free
}

// Name is what contend.Kind.Server says.
func (s *Server) Name() string { return s.name }

// Target is the address that contenders are given.
func (s *Server) Target() string { return s.target }

// Version is that of the server program.
func (s *Server) Version() string { return s.version }

// PIDs are the live processes of the set with all that they have started.
func (s *Server) PIDs() []int { return s.group.pids() }

// Ops are counters that only grow; "total" is the one that counts what clients asked for. PostgreSQL has none.
func (s *Server) Ops(ctx context.Context) (map[string]int64, error) { return s.ops(ctx) }

// Stop ends the set and removes its data. It may be repeated.
func (s *Server) Stop(ctx context.Context) error {
	if s.end != nil {
		s.end()
		s.end = nil
	}
	return s.group.stop(ctx)
}

// Start starts the server set of that name.
func Start(ctx context.Context, name string) (s run.Server, err error) {
	switch name {
	case "redis":
		s, err = Redis(ctx)
	case "etcd":
		s, err = Etcd(ctx)
	case "postgres":
		s, err = Postgres(ctx)
	case "zookeeper":
		s, err = ZooKeeper(ctx)
	default:
		err = errors.New("there is no such server")
	}
	if err != nil {
		return nil, fmt.Errorf("servers: %s: %w", name, err)
	}
	return s, nil
}
