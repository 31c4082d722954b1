package fairlock

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
	"github.com/fairlock/fairlock/waiter"
)

// Manager takes locks for one process. It is safe for concurrent use, and one is enough for any number of locks: it
// has one session, which is renewed as a whole, and at most one change stream, which is open only while somebody waits.
type Manager struct {
	cfg      Config
	clock    clock.Clock
	queue    queue.Store
	sessions reaper.Sessions
	watcher  *waiter.Watcher
	reaper   *reaper.Reaper
	tickets  *keeper
	stats    stats
	setup    func(context.Context) error
	owner    uint64 // chooses the slot by which lock documents know this process's newest arrival; random

	tasks  tasks           // every goroutine and every call under way
	opBase context.Context // parent of every database call; ends last of all
	opEnd  context.CancelFunc
	bgBase context.Context // parent of the background loops; ends when Close begins
	bgEnd  context.CancelFunc

	mu       sync.Mutex // guards all below; taken inside a line's mutex, never the other way
	lines    map[string]*line
	lease    *reaper.Lease // nil before the first lock, and after the session ended
	starting chan struct{} // not nil while a session is being begun; closed at its end
	begun    bool          // the background loops run
	closed   bool

	sweepMu   sync.Mutex // guards sweepLock
	sweepLock *Lock      // the right to sweep, while this process has it
}

// sweepName is the lock under which one process sweeps. Users' names have no control characters.
const sweepName = "\tsweep"

// newManager puts a manager together from its parts. cfg is complete.
func newManager(cfg Config, c clock.Clock, q queue.Store, s reaper.Sessions, src waiter.Source) *Manager {
	m := &Manager{cfg: cfg, clock: c, queue: q, sessions: s, lines: map[string]*line{}, owner: rand.Uint64()}
	m.tasks.init()
	m.opBase, m.opEnd = context.WithCancel(context.Background())
	m.bgBase, m.bgEnd = context.WithCancel(m.opBase)
	wc := waiter.Config{
		Source: src, Clock: c, Log: cfg.Logger, OpTimeout: cfg.OpTimeout,
		Await: 3 * time.Second, Recheck: 2 * time.Second, Linger: 5 * time.Second,
		Poll: cfg.PollInterval, PollOnly: cfg.Poll, Sink: m.notice,
	}
	m.watcher = waiter.New(wc)
	m.reaper = reaper.New(reaper.Config{
		TTL: cfg.TTL, OpTimeout: cfg.OpTimeout, Clock: c, Queue: q, Sessions: s, Log: cfg.Logger,
		Targets: m.targets, Sweep: m.sweepRight,
	})
	m.tickets = newKeeper(m)
	return m
}

// Session is the id of the manager's session, or "" when it has none: before the first lock, and after one was ended.
func (m *Manager) Session() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lease == nil {
		return ""
	}
	return m.lease.ID()
}

// Setup makes the collections and indexes that fairlock uses: indexes on locks.idleSince and sessions.endedAt by which the
// server deletes what nobody has needed for a day, and one on tickets.session. It may be repeated, and run by anyone
// with createCollection and createIndex. Locks work without it, and then leave their idle documents.
func (m *Manager) Setup(ctx context.Context) error { return m.setup(ctx) }

// Close gives everything back, so that the next in line goes on at once: callers that wait get [ErrClosed], locks that
// are held are lost (with [LostClosed]), numbers are settled, tickets and the session are deleted. It returns when all is
// done, or with ctx's error when that ends first; what is left then ends by its lease. The client stays open. Close may be
// repeated.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	m.mu.Unlock()
	if first {
		m.bgEnd()
		for _, l := range m.allLines() {
			l.close()
		}
		m.spawn(m.watcher.Close)
	}
	var err error
	select {
	case <-m.tasks.idle():
	case <-ctx.Done():
		err = ctx.Err()
		m.opEnd()
		<-m.tasks.idle()
	}
	m.mu.Lock()
	lease := m.lease
	m.lease = nil
	m.mu.Unlock()
	if lease != nil {
		lease.Stop()
		if err == nil {
			err = m.sessions.Remove(ctx, lease.ID())
		}
	}
	m.opEnd()
	return err
}

// close ends everything in a line.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.pending {
		if c.state == pending {
			l.failLocked(c, ErrClosed)
		}
	}
	l.pending = nil
	for _, r := range append([]*run(nil), l.runs...) {
		l.closeRun(r)
	}
	l.watchLocked()
}

// closeRun gives a run back at once, whatever it is used for. The caller holds mu.
func (l *line) closeRun(r *run) {
	l.removeRun(r)
	for _, c := range r.claims {
		switch c.state {
		case queued:
			l.failLocked(c, ErrClosed)
		case held:
			c.lock.lose(LostClosed)
			c.move(over)
			l.m.unref(l)
		}
	}
	l.m.settle(&settling{line: l, ranges: queue.Subtract(r.Range, r.given), drop: r.arrivals, done: make(chan struct{})})
}

// enter counts a call in and returns the line of the lock. The caller must call tasks.done when it leaves, and ends its
// reference to the line with unref when its claim is over.
func (m *Manager) enter(name string, shape queue.Shape) (*line, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	l := m.lines[name]
	if l == nil {
		l = &line{m: m, name: name, shape: shape}
		m.lines[name] = l
	}
	if l.shape != shape {
		return nil, &queue.MismatchError{Name: name, Want: shape, Have: l.shape}
	}
	l.refs++
	m.tasks.add()
	return l, nil
}

// ref adds a reference to a line that has one.
func (m *Manager) ref(l *line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l.refs++
}

// unref ends one reference. A line without is forgotten, so that a process that has locked a million names keeps nothing
// of them.
func (m *Manager) unref(l *line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.refs--; l.refs == 0 {
		delete(m.lines, l.name)
	}
}

func (m *Manager) allLines() []*line {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*line, 0, len(m.lines))
	for _, l := range m.lines {
		all = append(all, l)
	}
	return all
}

func (m *Manager) lineOf(name string) *line {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lines[name]
}

func (m *Manager) isClosed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// notice takes the watcher's news to the line it is about, if there still is one.
func (m *Manager) notice(n waiter.Notice) {
	if l := m.lineOf(n.View.Name); l != nil {
		l.notice(n)
	}
}

// opened takes in that a lock's frontier is at least frontier, as our own settle has made it.
func (m *Manager) opened(name string, frontier int64) {
	if l := m.lineOf(name); l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.learnLocked(queue.View{Name: name, Settled: -1, Frontier: frontier})
	}
}

// targets is what the reaper should look at.
func (m *Manager) targets() []reaper.Target {
	var all []reaper.Target
	for _, l := range m.allLines() {
		if t, ok := l.target(); ok {
			all = append(all, t)
		}
	}
	return all
}

// errNotTrusted: the lease is not renewed at this moment. It may be again, or end; either way it is not permanent.
var errNotTrusted = errors.New("fairlock: session not renewed in time")

// session returns the lease, and begins one if there is none. It is called by the manager's own goroutines only, since it can
// take the time of a database call; concurrent calls share it. Numbers are never asked for under a lease that is
// not trusted: they would have to be given back.
func (m *Manager) session() (*reaper.Lease, error) {
	m.mu.Lock()
	for m.starting != nil {
		starting := m.starting
		m.mu.Unlock()
		<-starting
		m.mu.Lock()
		if m.lease == nil {
			m.mu.Unlock()
			return nil, errNotTrusted
		}
	}
	if m.lease != nil && m.lease.State() == reaper.Ended {
		m.lease = nil // it ended before it was stored here, and leaseMoved did not find it
	}
	if m.lease != nil {
		lease := m.lease
		m.mu.Unlock()
		if !lease.Trusted(lease.Term()) {
			return nil, errNotTrusted
		}
		return lease, nil
	}
	m.starting = make(chan struct{})
	m.mu.Unlock()

	ctx, cancel := m.opContext()
	defer cancel()
	host, _ := os.Hostname()
	lease, err := reaper.Begin(ctx, reaper.LeaseConfig{
		TTL: m.cfg.TTL, Margin: m.cfg.Margin, OpTimeout: m.cfg.OpTimeout,
		Clock: m.clock, Store: m.sessions, Log: m.log(), Changed: m.leaseMoved,
	}, reaper.Session{ID: ulid.Make().String(), Host: host, PID: os.Getpid(), Label: m.cfg.Label})

	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.starting)
	m.starting = nil
	if err != nil {
		return nil, err
	}
	m.lease = lease
	if !m.begun {
		m.begun = true
		m.spawn(func() { m.reaper.Run(m.bgBase) })
		m.spawn(func() { m.tickets.run(m.bgBase) })
		m.spawn(func() { m.audit(m.bgBase) })
	}
	return lease, nil
}

// leaseMoved takes in a change of the lease. It runs in the lease's goroutine.
func (m *Manager) leaseMoved(lease *reaper.Lease, to reaper.LeaseState) {
	if to == reaper.Ended {
		m.mu.Lock()
		if m.lease == lease {
			m.lease = nil
		}
		m.mu.Unlock()
	}
	for _, l := range m.allLines() {
		l.leaseMoved(lease, to)
	}
}

// sweepRight tries to become the one that sweeps, and otherwise names the lock whose holder must be watched.
func (m *Manager) sweepRight(ctx context.Context) (bool, []reaper.Target) {
	m.sweepMu.Lock()
	lock := m.sweepLock
	m.sweepMu.Unlock()
	if lock != nil && lock.Err() == nil {
		return true, nil
	}
	lock, err := m.acquire(ctx, sweepName, &options{parent: ctx, label: "sweep"}, true)
	if err != nil {
		return false, []reaper.Target{{Name: sweepName, Below: 1<<63 - 1}}
	}
	m.sweepMu.Lock()
	m.sweepLock = lock
	m.sweepMu.Unlock()
	return true, nil
}

func (m *Manager) log() *slog.Logger { return m.cfg.Logger }

func (m *Manager) labelOf(c *claim) string {
	if c.opts.label != "" {
		return c.opts.label
	}
	return m.cfg.Label
}

// opContext is the context of one database call. It never descends from a caller's: a driver call that is cancelled
// closes its connection, and its outcome is unknown.
func (m *Manager) opContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(m.opBase, m.cfg.OpTimeout)
}

// spawn runs f in a goroutine that Close waits for.
func (m *Manager) spawn(f func()) {
	m.tasks.add()
	go func() {
		defer m.tasks.done()
		f()
	}()
}

// after runs f when d has passed, or when Close begins.
func (m *Manager) after(d time.Duration, f func()) {
	m.spawn(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-m.bgBase.Done():
		}
		f()
	})
}

// pause waits, and reports whether database calls may still be made.
func (m *Manager) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-m.opBase.Done():
		return false
	}
}

// tasks counts goroutines and calls. Unlike a WaitGroup it may be waited for while the count still goes up and down.
type tasks struct {
	mu    sync.Mutex // guards both
	n     int
	empty chan struct{} // closed while n is 0
}

func (t *tasks) init() {
	t.empty = make(chan struct{})
	close(t.empty)
}

func (t *tasks) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n++; t.n == 1 {
		t.empty = make(chan struct{})
	}
}

func (t *tasks) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 {
		close(t.empty)
	}
}

// idle is closed when nothing was under way at some moment after the call.
func (t *tasks) idle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.empty
}

func programName() string { return filepath.Base(os.Args[0]) }
