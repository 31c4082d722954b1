package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock"
)

const (
	feedEvery  = 300 * time.Millisecond // between two looks at the database; longer if one takes long
	feedRepeat = 5 * time.Second        // what has not changed is sent again, so that clocks on the page stay right
	feedLocks  = 50                     // locks of which the queue is shown
	feedPlaces = 20                     // places of each
)

// feed reads the queues for all who watch. Its goroutine, which it waits for in close, runs only while somebody does.
type feed struct {
	s  *Server
	wg sync.WaitGroup

	mu       sync.Mutex // guards all below
	watchers map[*watcher]struct{}
	of       map[string]int // watchers by client
	last     []byte         // newest, for those who join
	stop     context.CancelFunc
	closed   bool
}

// watcher is one status page. next has the newest snapshot that it has not taken yet: a slow page skips some.
type watcher struct {
	client string // its name
	next   chan []byte
}

func newFeed(s *Server) *feed {
	return &feed{s: s, watchers: map[*watcher]struct{}{}, of: map[string]int{}}
}

func (f *feed) join(client string) (*watcher, *problem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil, closing()
	case len(f.watchers) >= f.s.cfg.MaxWatchers:
		p := refusal(http.StatusServiceUnavailable, "full", "the gateway's status is watched by as many as may")
		p.retry = 5 * time.Second
		return nil, p
	case f.of[client] >= f.s.cfg.MaxWatchersEach:
		p := refusal(http.StatusTooManyRequests, "too-many-watchers", fmt.Sprintf("the client watches the gateway's status %d times: must not do so more often", f.s.cfg.MaxWatchersEach))
		p.retry = 5 * time.Second
		return nil, p
	}
	w := &watcher{client: client, next: make(chan []byte, 1)}
	if len(f.watchers) == 0 {
		ctx, cancel := context.WithCancel(f.s.base)
		f.stop, f.last = cancel, nil
		f.wg.Go(func() { f.run(ctx) })
	} else if f.last != nil {
		w.next <- f.last
	}
	f.watchers[w] = struct{}{}
	f.of[client]++
	return w, nil
}

func (f *feed) watching() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(len(f.watchers))
}

func (f *feed) leave(w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watchers, w)
	less(f.of, w.client)
	if len(f.watchers) == 0 {
		f.stop()
	}
}

func (f *feed) close() {
	f.mu.Lock()
	f.closed = true
	if f.stop != nil {
		f.stop()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

// send gives a snapshot to all. One run that has been stopped while another began sends nothing.
func (f *feed) send(ctx context.Context, text []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	f.last = text
	for w := range f.watchers {
		select {
		case <-w.next:
		default:
		}
		w.next <- text // there is room: only this goroutine puts something in
	}
}

// snapshot is what the status page shows.
type snapshot struct {
	Gateway gatewayView  `json:"gateway"`
	Locks   []*queueView `json:"locks"`             // those in use, the longest queue first
	More    int          `json:"more,omitempty"`    // in use, and not in Locks
	Idle    int          `json:"idle"`              // nobody holds or waits
	Trouble string       `json:"trouble,omitempty"` // why Locks is old
}

type gatewayView struct {
	Waiting  int64 `json:"waiting"` // leases of this gateway
	Held     int64 `json:"held"`
	UptimeMs int64 `json:"uptimeMs"`
}

// run reads until ctx ends.
func (f *feed) run(ctx context.Context) {
	var locks []*queueView // of the last reading that succeeded
	var shape string
	var sent time.Time
	for {
		began := time.Now()
		snap, err := f.read(ctx)
		if err != nil {
			snap = &snapshot{Locks: locks, Trouble: err.Error()}
		}
		locks = snap.Locks
		snap.Gateway = gatewayView{f.s.waits.Load(), f.s.holds.Load(), began.Sub(f.s.began).Milliseconds()}
		if now := string(snap.shape()); now != shape || began.Sub(sent) >= feedRepeat {
			shape, sent = now, began
			f.send(ctx, encode(snap))
		}
		pause := time.NewTimer(max(feedEvery, 4*time.Since(began)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

// shape is the snapshot without what changes by itself.
func (s *snapshot) shape() []byte {
	bare := *s
	bare.Gateway.UptimeMs = 0
	bare.Locks = make([]*queueView, len(s.Locks))
	timeless := func(places []placeView) []placeView {
		places = slices.Clone(places)
		for i := range places {
			if o := places[i].Owner; o != nil {
				o := *o
				o.AgeMs, o.HeldMs, o.LeaseLeftMs = 0, 0, 0
				places[i].Owner = &o
			}
		}
		return places
	}
	for i, q := range s.Locks {
		q := *q
		q.Holders, q.Waiters = timeless(q.Holders), timeless(q.Waiters)
		bare.Locks[i] = &q
	}
	return encode(&bare)
}

// read makes a snapshot.
func (f *feed) read(ctx context.Context) (*snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	all, err := f.s.m.List(ctx)
	if err != nil {
		return nil, err
	}
	snap := &snapshot{Locks: []*queueView{}}
	busy := slices.DeleteFunc(slices.Clone(all), func(s fairlock.LockSummary) bool { return s.Held+s.Waiting == 0 })
	snap.Idle = len(all) - len(busy)
	slices.SortStableFunc(busy, func(a, b fairlock.LockSummary) int { return cmp.Compare(b.Waiting, a.Waiting) })
	if len(busy) > feedLocks {
		snap.More = len(busy) - feedLocks
		busy = busy[:feedLocks]
	}
	for i := range busy {
		q, err := f.s.inspect(ctx, busy[i].Name)
		if errors.Is(err, fairlock.ErrNotFound) || errors.Is(err, fairlock.ErrMalformed) || errors.Is(err, fairlock.ErrInvalidName) {
			continue // gone or spoiled between the two reads, or somebody else's: that is no trouble of the other locks
		}
		if err != nil {
			return nil, err
		}
		if n := len(q.Waiters); n > feedPlaces {
			q.More += int64(n - feedPlaces)
			q.Waiters = q.Waiters[:feedPlaces]
		}
		if n := len(q.Holders); n > feedPlaces {
			q.Holders = q.Holders[:feedPlaces]
		}
		snap.Locks = append(snap.Locks, q)
	}
	return snap, nil
}
