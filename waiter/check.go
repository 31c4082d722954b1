package waiter

import (
	"context"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/chance"
	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/queue"
)

// check reads, in batches, the locks that are waited for: those to catch up with at once, those of dozers when they are due, all
// that listen every Recheck (a stream can go silent without an error), and more often while there is no stream.
func (w *Watcher) check(ctx context.Context, sh *shift) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	w.mu.Lock()
	recheckAt := w.cfg.Clock.Now().Add(w.jitter(w.pauseLocked()))
	w.mu.Unlock()
	for {
		w.mu.Lock()
		now := w.cfg.Clock.Now()
		// There may have been a stream when the pause began, and be none now.
		recheckAt = min(recheckAt, now.Add(mostJitter(w.pauseLocked())))
		names, origin := w.dueLocked(sh, now, recheckAt)
		if origin >= FromRecheck {
			if w.retireLocked(now) {
				w.mu.Unlock()
				return
			}
			recheckAt = now.Add(w.jitter(w.pauseLocked()))
		}
		next := recheckAt
		if sh.openedAt == 0 { // otherwise the stream says more
			for _, wt := range sh.dozing {
				next = min(next, wt.due)
			}
		}
		w.mu.Unlock()
		if len(names) == 0 {
			timer.Reset(max(next.Sub(now), 0))
			select {
			case <-ctx.Done():
				return
			case <-sh.wake:
			case <-timer.C:
			}
			continue
		}
		if err := w.read(ctx, w.cfg.Source.Views, names, origin); err != nil && ctx.Err() == nil {
			w.cfg.Log.Warn("fairlock: reading locks that are waited for", "error", err)
		}
		for _, name := range names {
			w.looked(sh, name, origin)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// dueLocked is what to read now, and why. The caller holds mu.
func (w *Watcher) dueLocked(sh *shift, now, recheckAt clock.Instant) (names []string, origin Origin) {
	if len(sh.catchUp) > 0 {
		for _, name := range sh.catchUp {
			if w.waitedLocked(name) != nil && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		sh.catchUp = nil
		return names, FromCatchUp
	}
	if now >= recheckAt {
		origin = FromRecheck
		if w.pollingLocked() {
			origin = FromPoll
		}
		for name, wt := range w.watches {
			// A dozer whose time is over hears of its queue by the stream, if one is open for other locks; when it does not,
			// the queue stands, or the stream is silent.
			if wt.waiters == 0 || !wt.plan.listen && (sh.openedAt == 0 || wt.due > now) {
				continue
			}
			// Those far back are read less often, since nothing can be missed for them soon.
			if wt.rechecks++; sh.openedAt == 0 || wt.rechecks%min(1+wt.pace.ahead/8, 5) == 0 {
				names = append(names, name)
			}
		}
		return names, origin
	}
	if sh.openedAt != 0 {
		return nil, FromDoze
	}
	for name, wt := range sh.dozing {
		if wt.due <= now {
			names = append(names, name)
		}
	}
	return names, FromDoze
}

// retryPause is between two reads while the stream is down.
const retryPause = 250 * time.Millisecond

// pauseLocked is the time between two re-checks, about, as things are now. The caller holds mu.
func (w *Watcher) pauseLocked() time.Duration {
	switch sh := w.shift; {
	case w.pollingLocked():
		return w.cfg.Poll
	case sh != nil && sh.openedAt == 0 && w.listenersLocked(sh) > 0:
		return min(w.cfg.Recheck, retryPause)
	}
	return w.cfg.Recheck
}

// jitter is d, a quarter more or less; mostJitter is the most that it makes of it.
func (w *Watcher) jitter(d time.Duration) time.Duration {
	return d*3/4 + chance.Upto(w.cfg.Chance, d/2)
}
func mostJitter(d time.Duration) time.Duration { return d * 5 / 4 }

func (w *Watcher) polling() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pollingLocked()
}

func (w *Watcher) pollingLocked() bool { return w.cfg.PollOnly || w.cfg.Clock.Now() < w.pollTill }

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
