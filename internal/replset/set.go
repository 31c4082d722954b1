package replset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/internal/guard"
)

const (
	// startLimit bounds Start after mongod was found, and Restart.
	startLimit = 2 * time.Minute

	portTries = 10
)

// Set is a running replica set, or a standalone server.
type Set struct {
	opts    Options
	bin     Binary
	dir     string
	release func() // gives a temporary dir up; nil if dir is the caller's
	members []*Member
	guard   *guard.Guard

	security *security // nil unless Options.Secure

	// stopped is set once, by Stop or by the guard's death, before members are
	// taken down.
	stopped atomic.Bool

	watching chan struct{} // closed when watch has returned

	stopMu sync.Mutex // serialises Stop
	gone   bool       // Stop is complete; guarded by stopMu
}

// Start finds a mongod and starts what o describes. See I3 and I4 for what holds
// when it returns. ctx bounds the starting only: the set runs until Stop, or until
// this process ends.
func Start(ctx context.Context, o Options) (_ *Set, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return nil, err
	}
	bin, err := Find(ctx, o.Log)
	if err != nil {
		return nil, err
	}
	return start(ctx, o, bin, ports.pick)
}

// start is Start with a given binary and a given source of ports.
func start(ctx context.Context, o Options, bin Binary, pick func() (int, error)) (_ *Set, err error) {
	begin := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("replset: not ready after %v", startLimit))
	defer cancel()

	s := &Set{opts: o, bin: bin, watching: make(chan struct{})}
	if err := s.makeDir(); err != nil {
		return nil, err
	}
	for i := range o.Members {
		s.members = append(s.members, &Member{set: s, id: i, dir: filepath.Join(s.dir, "m"+strconv.Itoa(i))})
	}
	if err := s.secure(); err != nil {
		return nil, errors.Join(err, s.removeDir())
	}
	if s.guard, err = guard.Start(); err != nil {
		if errors.Is(err, guard.ErrUnsupported) {
			err = ErrUnsupported
		} else {
			err = fmt.Errorf("replset: %w", err)
		}
		return nil, errors.Join(err, s.removeDir())
	}
	go s.watch() // from here on s.members does not change
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}()

	var g errgroup.Group
	for _, m := range s.members {
		g.Go(func() error { return m.first(ctx, pick) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if !o.Standalone {
		if err := s.initiate(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.await(ctx, s.healthy, s.death); err != nil {
		return nil, err
	}
	if err := s.makeAdmin(ctx); err != nil {
		return nil, err
	}
	o.Log.Info("replset: started", "uri", s.address(), "version", bin.Version, "took", time.Since(begin))
	return s, nil
}

// first is launch with a choice of port: one that was lost between pick and bind
// is given back for another (I5).
func (m *Member) first(ctx context.Context, pick func() (int, error)) (err error) {
	for range portTries {
		m.port, err = pick()
		if err != nil {
			return err
		}
		var p *process
		p, err = m.launch(ctx)
		if err == nil {
			return nil
		}
		if p == nil || !p.portTaken() {
			return err
		}
		m.set.opts.Log.Debug("replset: port was taken, picking another", "port", m.port)
		ports.giveBack(m.port)
		m.port = 0 // else Stop gives back what another set may have by then
	}
	return err
}

// makeDir makes the folder, or checks the caller's.
func (s *Set) makeDir() (err error) {
	if s.opts.Dir == "" {
		if n := sweep(os.TempDir()); n > 0 {
			s.opts.Log.Info("replset: removed data of dead processes", "folders", n)
		}
		s.dir, s.release, err = tempDir(os.TempDir())
		return err
	}
	if s.dir, err = filepath.Abs(s.opts.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	// Old data would bring an old configuration, with ports that may be gone.
	entries, err := os.ReadDir(s.dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%w: Dir %s is not empty", ErrOptions, s.dir)
	}
	return err
}

// removeDir removes a temporary folder, and leaves the caller's.
func (s *Set) removeDir() error {
	if s.release == nil {
		return nil
	}
	defer s.release() // after the removal: see sweep
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("replset: remove data: %w", err)
	}
	return nil
}

// watch takes the members down when the guard ends. In Stop they are down already;
// else somebody killed the guard, and servers that would outlive this process are
// not kept.
func (s *Set) watch() {
	defer close(s.watching)
	<-s.guard.Done()
	if s.stopped.CompareAndSwap(false, true) {
		s.opts.Log.Error("replset: watcher was killed, taking the servers down")
	}
	for _, m := range s.members {
		m.takeDown()
	}
}

// Stop kills all members, waits for them, and removes a temporary folder. The
// data is thrown away, so nobody is asked to shut down in order. It may be called
// again, from anywhere, and on a nil Set. If ctx ends first, the processes have
// been sent SIGKILL, and another Stop does the rest.
func (s *Set) Stop(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.stopMu.Lock()
	defer s.stopMu.Unlock()
	if s.gone {
		return nil
	}
	s.stopped.Store(true)
	var ends []<-chan struct{}
	for _, m := range s.members {
		if done := m.takeDown(); done != nil {
			ends = append(ends, done)
		}
	}
	s.guard.Release()
	for _, done := range append(ends, s.guard.Done(), s.watching) {
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("replset: stop: %w", context.Cause(ctx))
		}
	}
	s.gone = true
	for _, m := range s.members {
		ports.giveBack(m.port)
	}
	return s.removeDir()
}

// URI is for the driver: all members and the set's name, or, for a standalone
// server, a direct connection. Of a secure set it is the administrator's.
func (s *Set) URI() string {
	if s.security != nil {
		return s.URIFor(adminUser, s.security.key, "admin")
	}
	return s.address()
}

func (s *Set) address() string {
	if s.opts.Standalone {
		return "mongodb://" + s.members[0].Addr() + "/?directConnection=true"
	}
	addrs := make([]string, len(s.members))
	for i, m := range s.members {
		addrs[i] = m.Addr()
	}
	return "mongodb://" + strings.Join(addrs, ",") + "/?replicaSet=" + s.opts.Name
}

// Members are all members, in a fixed order, dead ones included.
func (s *Set) Members() []*Member { return slices.Clone(s.members) }

// Binary is the mongod that the members run.
func (s *Set) Binary() Binary { return s.bin }

// Dir is the folder with the members' folders m0, m1, m2.
func (s *Set) Dir() string { return s.dir }

// death is the StartError of a member that has died, nil if all live.
func (s *Set) death() error {
	for _, m := range s.members {
		m.mu.Lock()
		p := m.proc
		m.mu.Unlock()
		if !p.alive() {
			return &StartError{Addr: m.Addr(), Err: p.err, Log: m.LogTail(startTail)}
		}
	}
	return nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
