package fairlock

import (
	"sync"
	"time"

	"github.com/fairlock/fairlock/queue"
)

// requestPause is how often the documents of locks are read whose holders want to know of requests.
const requestPause = time.Second

// requests are the holders who want to know when somebody asks for their lock. Their goroutine runs while there are any.
type requests struct {
	m *Manager

	mu      sync.Mutex // guards both
	locks   map[*Lock]struct{}
	running bool
}

// Requested is closed when somebody has asked for the lock back by [Manager.RequestRelease] since it was granted. Whoever does not
// ask here is not disturbed; while somebody does, the process reads the documents of such locks once a second, all in one read.
func (l *Lock) Requested() <-chan struct{} {
	l.mu.Lock()
	first := l.requested == nil
	if first {
		l.requested = make(chan struct{})
		if l.asked {
			close(l.requested)
		}
	}
	requested, asked := l.requested, l.asked
	l.mu.Unlock()
	if first && !asked {
		l.line.m.requests.add(l)
	}
	return requested
}

// request tells the holder, now or when it wants to know.
func (l *Lock) request() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.asked && l.requested != nil {
		close(l.requested)
	}
	l.asked = true
}

// waitsForRequest reports whether the lock is held and nobody has asked for it yet.
func (l *Lock) waitsForRequest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost == nil && !l.released && !l.asked
}

func (r *requests) add(l *Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.locks[l] = struct{}{}
	if !r.running && !r.m.isClosed() {
		r.running = true
		r.m.spawn(r.run)
	}
}

func (r *requests) run() {
	ctx := r.m.bgBase
	tick := time.NewTicker(requestPause)
	defer tick.Stop()
	for {
		names := r.names()
		if names == nil {
			return
		}
		r.m.auditLocks(ctx, names)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// names are those of the locks to read. When there are none, or the manager is being closed, the goroutine has ended.
func (r *requests) names() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	for l := range r.locks {
		switch name := l.Name(); {
		case !l.waitsForRequest():
			delete(r.locks, l)
		case !seen[name]:
			seen[name] = true
			names = append(names, name)
		}
	}
	if r.m.bgBase.Err() != nil {
		names = nil
	}
	r.running = names != nil
	return names
}

// requestedLocked tells the holders who were admitted when the request was made. Inside a run of a mutex the lock may have been passed on since
// without a write: then it is for whoever has it now. The caller holds mu.
func (l *line) requestedLocked(q queue.Request) {
	if q.N <= l.asked.N && !q.At.After(l.asked.At) {
		return
	}
	l.asked = q // admitRun tells those who were admitted then and are granted here later
	for _, r := range l.runs {
		for _, c := range r.claims {
			if c.state == held && (c.num.Hi <= q.UpTo || l.exclusive() && r.Contains(q.UpTo)) {
				c.lock.request()
			}
		}
	}
}
