package waiter

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
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
	// FromRecheck: the slow re-check. When it grants, the stream has failed to.
	FromRecheck
	// FromPoll: a read in poll mode.
	FromPoll
)

func (o Origin) String() string {
	return [...]string{"opening", "event", "catch-up", "recheck", "poll"}[o]
}

// Notice is news of one lock.
type Notice struct {
	// View has Name always, and Settled and Frontier when Missing is false.
	View    queue.View
	Missing bool // the document was not there; proves nothing by itself
	Origin  Origin
}

// Event is what a stream delivers.
type Event struct {
	Name              string
	Settled, Frontier int64 // Settled is -1 when the event does not show it, because it did not change
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
	Open(ctx context.Context, await time.Duration) (Stream, error)
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
	Sink func(Notice)
}

// Counts is what a watcher has done. Fields only grow.
type Counts struct {
	StreamsOpened, StreamsFailed, Events, Reads atomic.Int64
}

// Watcher tells the locks of a process that somebody waits for what happens to them. Its goroutines run while at least one
// lock is waited for, and Linger longer; Close ends them and waits.
type Watcher struct {
	cfg    Config
	counts Counts

	mu       sync.Mutex // guards all below; never held across a call or Sink
	waiting  map[string]int
	idleFrom clock.Instant // since when nobody waits
	pollTill clock.Instant // until then there is no stream, because it would take the last connection
	shift    *shift        // nil at rest
	closed   bool
	wg       sync.WaitGroup
}

// shift is one life of the goroutines, from a first waiter to Linger after the last. Its fields are guarded by
// Watcher.mu; a shift that has ended can change nothing of the next.
type shift struct {
	cancel   context.CancelFunc
	openedAt clock.Instant // since when the stream misses nothing; 0: there is none
	catchUp  []string      // locks whose state between their arrival and the opening is unknown
	wake     chan struct{} // capacity 1: makes the checker look at catchUp
}

// New returns a watcher at rest.
func New(cfg Config) *Watcher {
	return &Watcher{cfg: cfg, waiting: map[string]int{}}
}

// Counts returns the live counters.
func (w *Watcher) Counts() *Counts { return &w.counts }

// Streaming reports whether a stream is open.
func (w *Watcher) Streaming() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shift != nil && w.shift.openedAt != 0
}

// Wait says that somebody waits for the lock, with a number that was asked for at since. A stream that was opened before
// since has missed nothing that matters; otherwise the lock is read once. Each Wait needs one Leave.
func (w *Watcher) Wait(name string, since clock.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.waiting[name]++
	if sh := w.shift; sh != nil {
		if sh.openedAt != 0 && since <= sh.openedAt {
			sh.catchUpLocked(name)
		}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	sh := &shift{cancel: cancel, wake: make(chan struct{}, 1)}
	w.shift = sh
	w.wg.Go(func() { w.check(ctx, sh) })
	if !w.cfg.PollOnly {
		w.wg.Go(func() { w.pump(ctx, sh) })
	}
}

// catchUpLocked has a lock read at once. The caller holds Watcher.mu.
func (sh *shift) catchUpLocked(name string) {
	sh.catchUp = append(sh.catchUp, name)
	select {
	case sh.wake <- struct{}{}:
	default:
	}
}

// catchUp has a lock read at once, if somebody waits for it.
func (w *Watcher) catchUp(sh *shift, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting[name] > 0 {
		sh.catchUpLocked(name)
	}
}

// Leave takes one Wait back.
func (w *Watcher) Leave(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.waiting[name]; n > 1 {
		w.waiting[name] = n - 1
	} else {
		delete(w.waiting, name)
	}
	if len(w.waiting) == 0 {
		w.idleFrom = w.cfg.Clock.Now()
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
	names := make([]string, 0, len(w.waiting))
	for name := range w.waiting {
		names = append(names, name)
	}
	return names
}

// retire ends both goroutines when nobody has waited for Linger. It is decided under mu, in which Wait
// starts the next ones, so that no waiter is left without.
func (w *Watcher) retire() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.waiting) > 0 || w.cfg.Clock.Now().Sub(w.idleFrom) < w.cfg.Linger {
		return false
	}
	w.shift.cancel()
	w.shift = nil
	return true
}

// check reads, in batches, the locks that are waited for: those to catch up with at once, all of them every Recheck (a
// stream can go silent without an error), and more often while there is no stream.
func (w *Watcher) check(ctx context.Context, sh *shift) {
	timer := time.NewTimer(w.pause())
	defer timer.Stop()
	for {
		origin := FromCatchUp
		var names []string
		select {
		case <-ctx.Done():
			return
		case <-sh.wake:
			w.mu.Lock()
			names, sh.catchUp = sh.catchUp, nil
			w.mu.Unlock()
		case <-timer.C:
			if w.retire() {
				return
			}
			origin, names = FromRecheck, w.names()
			if w.polling() {
				origin = FromPoll
			}
			timer.Reset(w.pause())
		}
		if err := w.read(ctx, w.cfg.Source.Views, names, origin); err != nil && ctx.Err() == nil {
			w.cfg.Log.Warn("fairlock: reading locks that are waited for", "error", err)
		}
	}
}

// retryPause is between two reads while the stream is down.
const retryPause = 250 * time.Millisecond

func (w *Watcher) pause() time.Duration {
	d := w.cfg.Recheck
	if w.polling() {
		d = w.cfg.Poll
	} else if !w.Streaming() {
		d = min(d, retryPause)
	}
	return d*3/4 + rand.N(d/2)
}

func (w *Watcher) polling() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cfg.PollOnly || w.cfg.Clock.Now() < w.pollTill
}

// readPage is how many locks one read asks for.
const readPage = 1000

func (w *Watcher) read(ctx context.Context, views func(context.Context, []string) ([]queue.View, error), names []string, origin Origin) error {
	for page := range slices.Chunk(names, readPage) {
		call, cancel := context.WithTimeout(ctx, w.cfg.OpTimeout)
		found, err := views(call, page)
		cancel()
		if err != nil {
			return err
		}
		w.counts.Reads.Add(1)
		missing := make(map[string]bool, len(page))
		for _, name := range page {
			missing[name] = true
		}
		for _, v := range found {
			delete(missing, v.Name)
			w.cfg.Sink(Notice{View: v, Origin: origin})
		}
		for name := range missing {
			w.cfg.Sink(Notice{View: queue.View{Name: name}, Missing: true, Origin: origin})
		}
	}
	return nil
}

// A stream that fails is opened afresh: at once the first time, then at most once a second with growing pauses.
const (
	firstPause = time.Second
	mostPause  = 15 * time.Second
	// pollFor is how long there is no stream after one was found to take the last connection of the user's pool.
	pollFor = time.Minute
	// wellLived is the life after which a stream's end is a first failure again.
	wellLived = 10 * time.Second
)

// pump keeps a stream open.
func (w *Watcher) pump(ctx context.Context, sh *shift) {
	pause := time.Duration(0)
	for ctx.Err() == nil {
		if w.polling() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pollFor):
			}
		}
		began := w.cfg.Clock.Now()
		err := w.stream(ctx, sh)
		w.mu.Lock()
		sh.openedAt = 0
		w.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		w.counts.StreamsFailed.Add(1)
		if w.cfg.Clock.Now().Sub(began) >= wellLived {
			pause = 0
		}
		w.cfg.Log.Warn("fairlock: change stream ended, opening another", "in", pause, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		}
		pause = min(max(2*pause, firstPause*2), mostPause)
	}
}

// stream opens one stream safely and delivers its events until it fails or ctx ends. It owns the stream: nobody else
// calls it, and it is closed after the last call has returned, with a context that is still alive.
func (w *Watcher) stream(ctx context.Context, sh *shift) error {
	s, err := w.open(ctx, sh)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.OpTimeout)
		defer cancel()
		s.Close(end)
	}()
	starved := 0
	for probing := true; ; {
		var found chan verdict
		waiting, returned := context.WithCancel(ctx)
		if probing {
			found = w.probe(ctx, waiting)
		}
		// The bound is the watchdog: a server that is frozen or cut off says nothing, not even an error.
		call, cancel := context.WithTimeout(ctx, w.cfg.Await+w.cfg.OpTimeout)
		events, err := s.Next(call)
		cancel()
		returned()
		w.deliver(sh, events)
		if found != nil {
			switch <-found {
			case fits:
				probing = false
			case starves:
				starved++
			}
		}
		switch {
		case err != nil:
			return err
		case starved == 2:
			w.mu.Lock()
			w.pollTill = w.cfg.Clock.Now().Add(pollFor)
			w.mu.Unlock()
			return errStarves
		}
	}
}

func (w *Watcher) deliver(sh *shift, events []Event) {
	for _, e := range events {
		w.counts.Events.Add(1)
		if e.Settled < 0 && !e.Deleted {
			// Without settled it does not show whether it is of the document that the waiter has a number of, or of one
			// that was made anew with higher numbers, of which the frontier would admit all old ones.
			w.catchUp(sh, e.Name)
			continue
		}
		w.cfg.Sink(Notice{
			View:    queue.View{Name: e.Name, Settled: e.Settled, Frontier: e.Frontier},
			Missing: e.Deleted, Origin: FromEvent,
		})
	}
}

var errStarves = errors.New("fairlock: a change stream leaves no connection for anything else (maxPoolSize is too small), polling instead")

// verdict is what a probe found.
type verdict uint8

const (
	unclear verdict = iota
	fits            // a read was answered while the stream waited
	starves         // a read had to wait until the stream let go of its connection
)

// probe finds out whether a read has to wait for the stream, which holds a connection all the time that the server holds an
// empty reply back: in a pool of one the lease could not be renewed beside it. It reads once when the stream's call has been
// waiting for a while, and compares which ends first; a server that is slow does not make a read end right after the
// stream's call, twice. waiting ends when the stream's call has returned; the verdict comes shortly after at the latest.
func (w *Watcher) probe(ctx, waiting context.Context) chan verdict {
	found := make(chan verdict, 1)
	soon := w.cfg.Await / 6
	go func() {
		timer := time.NewTimer(soon)
		defer timer.Stop()
		select {
		case <-waiting.Done():
			found <- unclear
			return
		case <-timer.C:
		}
		began := w.cfg.Clock.Now()
		call, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(waiting, func() { time.AfterFunc(soon, cancel) })()
		_, err := w.cfg.Source.Views(call, []string{""})
		switch {
		case err != nil:
			found <- unclear
		case waiting.Err() == nil:
			found <- fits
		case w.cfg.Clock.Now().Sub(began) > w.cfg.Await/2:
			found <- starves
		default:
			found <- unclear
		}
	}()
	return found
}

func (w *Watcher) open(ctx context.Context, sh *shift) (Stream, error) {
	call, cancel := context.WithTimeout(ctx, 2*w.cfg.OpTimeout)
	defer cancel()
	opening, err := w.cfg.Source.Begin(call)
	if err != nil {
		return nil, err
	}
	defer opening.End()
	// From here on the stream will miss nothing. A lock that begins to be waited for from now on with a number asked for
	// before now is one to catch up with; all others are in names, or were asked for after the stream's beginning.
	w.mu.Lock()
	sh.openedAt = w.cfg.Clock.Now()
	sh.catchUp = nil
	w.mu.Unlock()
	s, err := opening.Open(call, w.cfg.Await)
	if err != nil {
		return nil, err
	}
	w.counts.StreamsOpened.Add(1)
	if err := w.read(call, opening.Views, w.names(), FromOpening); err != nil {
		s.Close(call)
		return nil, err
	}
	return s, nil
}
