package fairlock

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/chance"
	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/parts"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
	"github.com/fairlock/fairlock/waiter"
)

// Manager takes locks for one process. It is safe for concurrent use, and one is enough for any number of locks: it
// has one session, which is renewed as a whole, and at most one change stream, which is open only while somebody waits.
type Manager struct {
	cfg       Config
	clock     clock.Clock
	queue     queue.Store
	sessions  reaper.Sessions
	chance    rand.Source
	watcher   *waiter.Watcher
	reaper    *reaper.Reaper
	tickets   *keeper
	stats     stats
	setup     func(context.Context) error
	calls     atomic.Int64 // of Lock that wait
	gaps      atomic.Int64 // in the renewals of leases, and their ends
	passed    *passedOver  // nil where all documents are fairlock's own
	observing *observing   // nil where there is no observer
	requests  requests
	owner     uint64 // chooses the slot by which lock documents know this process's newest arrival; random

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

// Assemble returns a manager on something else than MongoDB. Only this module can make parts: it is there for the simulator and for
// fakes. cfg may be nil.
func Assemble(cfg *Config, p parts.Parts) (*Manager, error) {
	full, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m := newManager(full, p)
	m.setup = func(context.Context) error { return nil }
	m.observing.made()
	return m, nil
}

// newManager puts a manager together from its parts. cfg is complete.
func newManager(cfg Config, p parts.Parts) *Manager {
	c := p.Clock
	m := &Manager{cfg: cfg, clock: c, queue: p.Queue, sessions: p.Sessions, chance: p.Chance, lines: map[string]*line{}}
	m.owner = chance.Uint64(m.chance)
	m.observing = newObserving(m, cfg.Observer)
	m.tasks.init()
	m.opBase, m.opEnd = context.WithCancel(context.Background())
	m.bgBase, m.bgEnd = context.WithCancel(m.opBase)
	wc := waiter.Config{
		Source: p.Source, Clock: c, Log: cfg.Logger, OpTimeout: cfg.OpTimeout,
		Await: 5 * time.Second, Recheck: 2 * time.Second, Linger: 5 * time.Second,
		Poll: cfg.PollInterval, PollOnly: cfg.Poll, Sink: m.notice, Chance: p.Chance,
		Opened: m.observing.streamOpened(), Failed: m.observing.streamFailed(),
	}
	m.watcher = waiter.New(wc)
	m.reaper = reaper.New(reaper.Config{
		TTL: cfg.TTL, OpTimeout: cfg.OpTimeout, Clock: c, Queue: p.Queue, Sessions: p.Sessions, Log: cfg.Logger,
		Targets: m.targets, Sweep: m.sweepRight, Outages: m.outages, Chance: p.Chance, Reaped: m.observing.reaped(),
	})
	m.tickets = newKeeper(m)
	m.requests = requests{m: m, locks: map[*Lock]struct{}{}}
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
// with createCollection and createIndex. Locks work without it: the sweep then deletes their idle documents.
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
	m.observing.end(ctx)
	return err
}

func (m *Manager) isClosed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// renewedLate notes that the lease was not renewed for a while, and may be again now.
func (m *Manager) renewedLate() { m.gaps.Add(1) }

// outages is [reaper.Config.Outages]: the number of gaps in renewals, below zero while one lasts. Whether one lasts is asked first: a
// renewal that ends it counts it before it moves the lease on.
func (m *Manager) outages() int64 {
	m.mu.Lock()
	lease := m.lease
	m.mu.Unlock()
	if lease != nil && lease.Late() {
		return -1 - m.gaps.Load()
	}
	return m.gaps.Load()
}

// leaseMoved takes in a change of the lease. It runs in the lease's goroutine.
func (m *Manager) leaseMoved(lease *reaper.Lease, to reaper.LeaseState) {
	if to != reaper.Live {
		m.renewedLate()
	}
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
	if err := lease.Refused(); err != nil && to == reaper.Lapsed {
		for _, l := range m.allLines() {
			l.refuse(func(c *claim) bool { return c.run.lease == lease }, err)
		}
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
	if lock != nil {
		// Lost, and no sweep is on its way under it: it need not stand in the way for a LockDelay.
		lock.giveBack()
	}
	lock, err := m.acquire(ctx, sweepName, &options{parent: ctx, label: "sweep", named: true, ask: mutex}, true)
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
	if c.opts.named {
		return c.opts.label
	}
	return m.cfg.Label
}

func programName() string { return filepath.Base(os.Args[0]) }
