package fairlock

import (
	"context"
	"sync"
	"time"
)

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
