package waiter

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock/internal/chance"
	"github.com/fairlock/fairlock/queue"
)

// A stream that fails is opened afresh: at once the first time, then at most once a second with growing pauses.
const (
	firstPause = time.Second
	mostPause  = 15 * time.Second
	// pollFor is how long there is no stream after one was found to take the last connection of the user's pool.
	pollFor = time.Minute
	// wellLived is the life after which a stream's end is a first failure again.
	wellLived = 10 * time.Second
)

// A stream on all locks also tells of those that nobody here waits for, each time at the cost of waking this process up. After
// mostIdle such events, with less than a tenth as many of the others, the next stream has a filter on names, if they are at
// most mostNames. A stream without is better when names come and go, since a filter is part of a stream for good.
const (
	mostIdle  = 200
	mostNames = 100
)

// errOtherNames ends a stream whose filter no longer fits.
var errOtherNames = errors.New("other locks are waited for")

// errParked ends a stream that nobody listens to any more, while others wait who read when their turn is near.
var errParked = errors.New("nobody listens")

// pump keeps a stream open while somebody listens.
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
		if !w.wanted(sh) {
			select {
			case <-ctx.Done():
				return
			case <-sh.listen:
			}
			continue
		}
		began := w.cfg.Clock.Now()
		err := w.stream(ctx, sh)
		w.unopened(sh)
		if ctx.Err() != nil {
			return
		}
		if w.cfg.Clock.Now().Sub(began) >= wellLived {
			pause = 0
		}
		if errors.Is(err, errOtherNames) || errors.Is(err, errParked) {
			continue
		}
		w.counts.StreamsFailed.Add(1)
		if w.cfg.Failed != nil {
			w.cfg.Failed(reason(err), err)
		}
		if errors.Is(err, queue.ErrPrivilege) {
			w.poll()
			if !w.refused.Swap(true) {
				w.cfg.Log.Warn("fairlock: change stream refused, polling instead", "asked again every", pollFor, "error", err)
			}
			continue
		}
		w.cfg.Log.Warn("fairlock: change stream ended, opening another", "in", pause, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + chance.Upto(w.cfg.Chance, pause/2+1)):
		}
		pause = min(max(2*pause, firstPause*2), mostPause)
	}
}

// reason is why a stream failed, in a word.
func reason(err error) string {
	switch {
	case errors.Is(err, queue.ErrPrivilege):
		return "privilege"
	case errors.Is(err, errStarves):
		return "pool"
	case errors.Is(err, context.DeadlineExceeded), mongo.IsTimeout(err):
		return "timeout"
	}
	return "error"
}

// wanted reports whether somebody listens.
func (w *Watcher) wanted(sh *shift) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.listenersLocked(sh) > 0
}

// parks reports whether an open stream should be closed: all who wait doze. While nobody waits it stays, for the next who does.
func (w *Watcher) parks(sh *shift) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting > 0 && w.listenersLocked(sh) == 0
}

// listenersLocked is how many of the locks that are waited for somebody listens for. The caller holds mu.
func (w *Watcher) listenersLocked(sh *shift) int { return w.waiting - len(sh.dozing) }

// stream opens one stream safely and delivers its events until it fails or ctx ends. It owns the stream: nobody else
// calls it, and it is closed after the last call has returned, with a context that is still alive.
func (w *Watcher) stream(ctx context.Context, sh *shift) (err error) {
	base := ctx
	ctx, reopen := context.WithCancelCause(base)
	defer reopen(nil)
	defer func() {
		if base.Err() == nil && errors.Is(context.Cause(ctx), errOtherNames) {
			err = errOtherNames
		}
	}()
	s, err := w.open(ctx, sh, func() { reopen(errOtherNames) })
	if err != nil {
		return err
	}
	defer w.closeStream(ctx, sh, s)
	heard, idle := 0, 0
	starved := 0
	for probing := !w.fits.Load(); ; {
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
		useful := w.deliver(sh, events)
		heard += useful
		idle += len(events) - useful
		if found != nil {
			switch <-found {
			case fits:
				probing = false
				w.fits.Store(true)
			case starves:
				starved++
			}
		}
		switch {
		case err != nil:
			return err
		case starved == 2:
			w.poll()
			return errStarves
		case w.parks(sh):
			return errParked
		case idle >= mostIdle && w.narrows(sh, heard, idle):
			return errOtherNames
		}
	}
}

// poll has those who wait served by reads for a while.
func (w *Watcher) poll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pollTill = w.cfg.Clock.Now().Add(pollFor)
}

// closeStream closes a stream after its last call, with a context that is alive and ends. Those who wait are served by reads from
// now on: closing can take long.
func (w *Watcher) closeStream(ctx context.Context, sh *shift, s Stream) {
	w.unopened(sh)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.OpTimeout)
	defer cancel()
	s.Close(end)
}

// unopened says that there is no stream any more. Dozers, for whom it stood in, may be due.
func (w *Watcher) unopened(sh *shift) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sh.openedAt = 0
	signal(sh.wake)
}

// narrows reports whether the next stream should have a filter on names, and asks for one.
func (w *Watcher) narrows(sh *shift, heard, idle int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if sh.only != nil || heard*10 > idle || len(w.watches) > mostNames {
		return false
	}
	sh.narrow = true
	return true
}

// deliver tells the lines what the events say, and returns how many were of locks that are waited for. Those of others are told
// all the same: a line whose numbers are still on their way to it must not miss what happens meanwhile.
func (w *Watcher) deliver(sh *shift, events []Event) (useful int) {
	for _, e := range events {
		w.counts.Events.Add(1)
		if w.awaited(e.Name) {
			useful++
		}
		w.cfg.Sink(Notice{
			View: queue.View{
				Name: e.Name, Settled: e.Settled, Frontier: e.Frontier, Reached: e.Reached, Forces: e.Forces, Forced: e.Forced,
				Permits: e.Permits, Managed: e.Permits > 0, // nothing else changes permits
			},
			Missing: e.Deleted, Origin: FromEvent,
		})
		w.looked(sh, e.Name, FromEvent)
	}
	return useful
}

func (w *Watcher) awaited(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waitedLocked(name) != nil
}

// open opens a stream safely (see doc.go). reopen is what ends it when its filter no longer fits.
func (w *Watcher) open(ctx context.Context, sh *shift, reopen func()) (Stream, error) {
	call, cancel := context.WithTimeout(ctx, 2*w.cfg.OpTimeout)
	defer cancel()
	began := w.cfg.Clock.Now()
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
	sh.reopen = reopen
	filter := w.filterLocked(sh)
	w.mu.Unlock()
	s, err := opening.Open(call, w.cfg.Await, filter)
	if err != nil {
		return nil, err
	}
	w.counts.StreamsOpened.Add(1)
	if w.cfg.Opened != nil {
		w.cfg.Opened(w.cfg.Clock.Now().Sub(began))
	}
	w.refused.Store(false)
	names := w.names()
	if err := w.read(call, opening.Views, names, FromOpening); err != nil {
		w.closeStream(ctx, sh, s)
		return nil, err
	}
	for _, name := range names {
		w.looked(sh, name, FromOpening)
	}
	return s, nil
}

// filterLocked is what the stream that is being opened shall tell of: also of locks that were waited for shortly before. The
// caller holds mu.
func (w *Watcher) filterLocked(sh *shift) []string {
	sh.only = nil
	if !sh.narrow || len(w.watches) > mostNames {
		sh.narrow = false
		return nil
	}
	sh.only = map[string]bool{}
	for name := range w.watches {
		sh.only[name] = true
	}
	return slices.Collect(maps.Keys(sh.only))
}
