package fairlocktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/internal/parts"
)

// Server is a database in memory. It is safe for concurrent use, has no goroutine, and needs no end.
type Server struct {
	mu     sync.Mutex                  // guards all below
	spaces map[string]*memstore.Server // by Config.Prefix
}

// NewServer returns an empty database.
func NewServer() *Server { return &Server{spaces: map[string]*memstore.Server{}} }

// New returns a manager on a database of its own; see [Server.Process].
func New(tb testing.TB, cfg *fairlock.Config) *fairlock.Manager {
	need(tb)
	tb.Helper()
	return NewServer().Process(tb, cfg).Manager
}

// Manager starts a process that nothing will happen to, and returns its manager; see [Server.Process].
func (s *Server) Manager(tb testing.TB, cfg *fairlock.Config) *fairlock.Manager {
	need(tb)
	tb.Helper()
	return s.Process(tb, cfg).Manager
}

// closeLimit is how long a process may take to end with its test. Closing takes a few writes in memory.
const closeLimit = 10 * time.Second

// Process starts a process. cfg may be nil, and is as for [fairlock.New]; one that breaks a rule ends the test with that rule.
//
// The process ends with the test: what is wrong with it is healed and its manager closed; when that fails, the test fails. It may be
// closed before. tb is the test that it belongs to: in a bubble, the one that [testing/synctest.Test] has passed.
func (s *Server) Process(tb testing.TB, cfg *fairlock.Config) *Process {
	need(tb)
	tb.Helper()
	client := s.space(cfg).Client()
	p := &Process{tb: tb, clock: memstore.NewClock(), client: client, gone: make(chan struct{})}
	client.Steer(p.course)
	m, err := fairlock.Assemble(cfg, parts.Parts{
		Clock: p.clock, Queue: client.Queue(), Sessions: client.Sessions(), Source: client.Source(),
	})
	if err != nil {
		tb.Fatalf("fairlocktest: %v", err)
	}
	p.Manager = m
	tb.Cleanup(func() {
		tb.Helper()
		p.heal()
		p.resume()
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		if err := m.Close(ctx); err != nil && !p.killed() {
			tb.Errorf("fairlocktest: close at the end of the test: %v", err)
		}
	})
	return p
}

// space is the collections of a prefix.
func (s *Server) space(cfg *fairlock.Config) *memstore.Server {
	prefix := "fairlock." // the default of Config
	if cfg != nil && cfg.Prefix != "" {
		prefix = cfg.Prefix
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spaces[prefix] == nil {
		s.spaces[prefix] = memstore.New(time.Now)
	}
	return s.spaces[prefix]
}

// need refuses to go on without a test: nobody could be told of a failure, and nothing would be closed.
func need(tb testing.TB) {
	if tb == nil {
		panic("fairlocktest: tb is nil: pass the test")
	}
}
