package waiter

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/queue"
)

// Origin says where a notice comes from. All are facts from majority-committed documents; the difference is for counting.
type Origin uint8

const (
	// FromOpening: the read that goes with the safe opening of a stream.
	FromOpening Origin = iota
	// FromEvent: a change event.
	FromEvent
	// FromCatchUp: the read for a lock that began to be waited for while the stream was being opened.
	FromCatchUp
	// FromDoze: a read that was timed by the pace of the queue, of one who does not listen.
	FromDoze
	// FromRecheck: the slow re-check. When it grants, the stream has failed to.
	FromRecheck
	// FromPoll: a read in poll mode.
	FromPoll
)

func (o Origin) String() string {
	return [...]string{"opening", "event", "catch-up", "doze", "recheck", "poll"}[o]
}

// Notice is news of one lock.
type Notice struct {
	// View has Name always, and Settled and Frontier when Missing is false. An event's Reached is 0 when it did not change.
	View    queue.View
	Missing bool // the document was not there; proves nothing by itself
	Origin  Origin
}

// Event is what a stream delivers.
type Event struct {
	Name              string
	Settled, Frontier int64
	Reached           int64 // 0 when the event does not show it
	Forces, Forced    int64 // as in queue.View, where the event shows them; otherwise 0
	Permits           int64 // of a semaphore whose permits were changed by this; otherwise 0
	Deleted           bool
}

// Stream is an open change stream. It is used by one goroutine at a time.
type Stream interface {
	// Next waits for events, at most for the await time it was opened with, and returns none when none came.
	// After an error the stream is dead.
	Next(ctx context.Context) ([]Event, error)
	// Close frees what the server holds. It must not run at the same time as Next.
	Close(ctx context.Context)
}

// Opening is a safe opening under way (see doc.go): a point in time, reads that are no older than it, and a stream
// that delivers all that came after it.
type Opening interface {
	Views(ctx context.Context, names []string) ([]queue.View, error)
	// Open opens the stream of the locks in names, or of all when it is nil.
	Open(ctx context.Context, await time.Duration, names []string) (Stream, error)
	End()
}

// Source opens streams and reads lock documents.
type Source interface {
	Begin(ctx context.Context) (Opening, error)
	Views(ctx context.Context, names []string) ([]queue.View, error)
}

// Config is what a watcher needs to know. All durations must be positive.
type Config struct {
	Source    Source
	Clock     clock.Clock
	Log       *slog.Logger
	OpTimeout time.Duration // bounds each call; a stream may be silent for Await longer
	Await     time.Duration // how long the server holds an empty reply back
	Recheck   time.Duration // between two slow re-checks
	Linger    time.Duration // how long the stream stays open after the last waiter left
	Poll      time.Duration // between two reads in poll mode
	PollOnly  bool          // never open a stream
	// Sink takes each notice. It is called from the watcher's goroutines, also at the same time, and must not block.
	Sink   func(Notice)
	Chance rand.Source // see package chance
	// Opened is called when a stream was opened, and Failed when one failed, or could not be opened, with a word for the reason: privilege, pool,
	// timeout, error. They must not block. nil: nobody asks.
	Opened func(took time.Duration)
	Failed func(reason string, err error)
}

// Counts is what a watcher has done. Fields only grow.
type Counts struct {
	StreamsOpened, StreamsFailed, Events, Reads atomic.Int64
	Overslept                                   atomic.Int64 // times that a doze of more than nearDoze was ended by a read that admitted the last who waited
}

// Watcher tells the locks of a process that somebody waits for what happens to them. Its goroutines run while at least one
// lock is waited for, and Linger longer; Close ends them and waits.
type Watcher struct {
	cfg    Config
	counts Counts
	fits   atomic.Bool // a stream was found to leave connections for the rest

	refused atomic.Bool // the last opening was refused for want of a privilege, which was logged

	mu       sync.Mutex // guards all below; never held across a call or Sink
	watches  map[string]*watch
	waiting  int           // watches with a waiter
	idleFrom clock.Instant // since when nobody waits
	pollTill clock.Instant // until then there is no stream, because it would take the last connection or is not allowed
	shift    *shift        // nil at rest
	closed   bool
	wg       sync.WaitGroup
}

// watch is one lock that is waited for, and for Linger longer what is known of its pace. Guarded by Watcher.mu.
type watch struct {
	waiters  int
	pace     pace
	plan     plan
	due      clock.Instant // of the next read, unless plan.listen
	left     clock.Instant // when the last waiter left
	rechecks int64         // that came by
}

// shift is one life of the goroutines, from a first waiter to Linger after the last. Its fields are guarded by
// Watcher.mu; a shift that has ended can change nothing of the next.
type shift struct {
	cancel   context.CancelFunc
	openedAt clock.Instant     // since when the stream misses nothing; 0: there is none
	only     map[string]bool   // the locks of which the stream tells; nil: of all
	reopen   func()            // ends the stream, for another that tells of other locks
	narrow   bool              // the next stream is to tell only of what is waited for
	catchUp  []string          // locks whose state between their arrival and the opening is unknown
	dozing   map[string]*watch // waited for, and not by one who listens
	wake     chan struct{}     // capacity 1: makes the checker look at catchUp and at what is due
	listen   chan struct{}     // capacity 1: makes the pump look whether somebody listens
}

// New returns a watcher at rest.
func New(cfg Config) *Watcher {
	return &Watcher{cfg: cfg, watches: map[string]*watch{}}
}

// Counts returns the live counters.
func (w *Watcher) Counts() *Counts { return &w.counts }

// Streaming reports whether a stream is open.
func (w *Watcher) Streaming() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shift != nil && w.shift.openedAt != 0
}

// Wait says that somebody waits for the lock, with a number that was asked for at since and that many arrivals ahead, and that width like him
// can hold at a time. A stream
// that was opened before since has missed nothing that matters; otherwise the lock is read once. Each Wait needs one Leave.
func (w *Watcher) Wait(name string, since clock.Instant, ahead, width int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	wt := w.watches[name]
	if wt == nil {
		wt = &watch{}
		w.watches[name] = wt
	}
	wt.waiters++
	first := wt.waiters == 1
	if first {
		w.waiting++
		wt.pace.start(w.cfg.Clock.Now(), ahead)
		wt.pace.width = width
	}
	sh := w.shift
	if sh == nil {
		sh = w.beginLocked()
	} else if sh.openedAt != 0 && sh.only != nil && !sh.only[name] {
		sh.reopen()
	} else if sh.openedAt != 0 && since <= sh.openedAt {
		sh.catchUpLocked(name)
	}
	if first {
		w.planLocked(sh, name, wt)
	}
}

// beginLocked starts a shift. The caller holds mu.
func (w *Watcher) beginLocked() *shift {
	ctx, cancel := context.WithCancel(context.Background())
	sh := &shift{cancel: cancel, dozing: map[string]*watch{}, wake: make(chan struct{}, 1), listen: make(chan struct{}, 1)}
	w.shift = sh
	w.wg.Go(func() { w.check(ctx, sh) })
	if !w.cfg.PollOnly {
		w.wg.Go(func() { w.pump(ctx, sh) })
	}
	return sh
}

// catchUpLocked has a lock read at once. The caller holds Watcher.mu.
func (sh *shift) catchUpLocked(name string) {
	sh.catchUp = append(sh.catchUp, name)
	signal(sh.wake)
}

// waitedLocked is the watch of a lock that somebody waits for, else nil. The caller holds mu.
func (w *Watcher) waitedLocked(name string) *watch {
	if wt := w.watches[name]; wt != nil && wt.waiters > 0 {
		return wt
	}
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Ahead says how many arrivals are ahead now of the first who waits for the lock.
func (w *Watcher) Ahead(name string, ahead int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wt := w.waitedLocked(name)
	if wt == nil || w.shift == nil || wt.pace.ahead == ahead {
		return
	}
	wt.pace.look(w.cfg.Clock.Now(), ahead)
	w.planLocked(w.shift, name, wt)
}

// Soon reports whether the first who waits for the lock can expect its turn within d, at the pace at which the queue moves.
func (w *Watcher) Soon(name string, d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	wt := w.waitedLocked(name)
	return wt != nil && wt.pace.soon(w.cfg.Clock.Now(), d)
}

// Dozes reports whether the queue moves so fast that those who wait for the lock time their reads instead of listening.
func (w *Watcher) Dozes(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	wt := w.waitedLocked(name)
	return wt != nil && !wt.plan.listen && w.cfg.Clock.Now() < wt.due.Add(longestDoze)
}

// looked plans anew after a lock was read or an event of it delivered; if it moved, Ahead or Leave has been called meanwhile.
func (w *Watcher) looked(sh *shift, name string, from Origin) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wt := w.watches[name]
	switch {
	case wt == nil || w.shift != sh:
	case wt.waiters > 0:
		w.planLocked(sh, name, wt)
	case from == FromDoze:
		if wt.pace.ended(wt.plan.doze) {
			w.counts.Overslept.Add(1)
		}
	}
}

// planLocked decides who serves a lock's waiter next, the stream or a read, and tells the one that has to act. The caller
// holds mu.
func (w *Watcher) planLocked(sh *shift, name string, wt *watch) {
	now := w.cfg.Clock.Now()
	if wt.plan = wt.pace.next(now, sh.openedAt != 0); w.pollingLocked() {
		wt.plan = plan{listen: true} // which is to be read every Poll
	}
	if wt.plan.listen {
		delete(sh.dozing, name)
		signal(sh.listen)
		if sh.openedAt == 0 {
			signal(sh.wake) // until there is a stream, it is read
		}
		return
	}
	sh.dozing[name] = wt
	wt.due = now.Add(wt.plan.doze)
	signal(sh.wake)
}

// Leave takes one Wait back.
func (w *Watcher) Leave(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wt := w.waitedLocked(name)
	if wt == nil {
		return // Close came between
	}
	if wt.waiters--; wt.waiters > 0 {
		return
	}
	wt.left = w.cfg.Clock.Now()
	if w.shift != nil {
		delete(w.shift.dozing, name)
	}
	if w.waiting--; w.waiting == 0 {
		w.idleFrom = wt.left
	}
}

// Close ends the goroutines and waits for them. Nobody is told anything after it.
func (w *Watcher) Close() {
	w.mu.Lock()
	w.closed = true
	if w.shift != nil {
		w.shift.cancel()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// names returns the locks that are waited for.
func (w *Watcher) names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for name, wt := range w.watches {
		if wt.waiters > 0 {
			names = append(names, name)
		}
	}
	return names
}

// retireLocked ends both goroutines when nobody has waited for Linger, and forgets the pace of locks that nobody has waited for
// that long. It is decided under mu, in which Wait starts the next ones, so that no waiter is left without.
func (w *Watcher) retireLocked(now clock.Instant) bool {
	for name, wt := range w.watches {
		if wt.waiters == 0 && now.Sub(wt.left) >= w.cfg.Linger {
			delete(w.watches, name)
		}
	}
	if w.closed || w.waiting > 0 || now.Sub(w.idleFrom) < w.cfg.Linger {
		return false
	}
	w.shift.cancel()
	w.shift = nil
	w.watches = map[string]*watch{} // a map keeps the room that it once had
	return true
}
