package fairlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
	"github.com/fairlock/fairlock/waiter"
)

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
	if l.shape != shape && !(l.shape.Kind == shape.Kind && l.managed.Load()) {
		return nil, &queue.MismatchError{Name: name, Want: shape, Have: l.shape}
	}
	l.refs++
	m.tasks.add()
	return l, nil
}

// besidePause is between two attempts of enterBeside.
const besidePause = 5 * time.Millisecond

// enterBeside is enter for a call that means another shape than calls of this process that are under way. The document says who is wrong: when it is
// the others, they are being refused, and their line is about to go.
func (m *Manager) enterBeside(ctx context.Context, name string, shape queue.Shape) (*line, error) {
	began := m.clock.Now()
	for {
		l, err := m.enter(name, shape)
		if !errors.Is(err, ErrMismatch) {
			return l, err
		}
		v, found, failed := m.queue.View(ctx, name)
		switch {
		case ctx.Err() != nil:
			return nil, &waitError{name: name, waited: m.clock.Now().Sub(began), cause: ctx.Err(), last: err}
		case failed != nil:
			return nil, failed
		case !found:
			return nil, err // who came first makes it
		case !v.Agrees(shape):
			return nil, &queue.MismatchError{Name: name, Want: shape, Have: v.Shape()}
		}
		if l := m.lineOf(name); l != nil && v.Managed && l.shape.Kind == v.Kind {
			l.managed.Store(true)
			continue
		}
		pause := time.NewTimer(besidePause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
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
	if m.chance != nil { // nothing may be left to chance but what that decides
		slices.SortFunc(all, func(a, b *line) int { return cmp.Compare(a.name, b.name) })
	}
	return all
}

func (m *Manager) lineOf(name string) *line {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lines[name]
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
	l.m.settle(l.newSettling(r, r.open(), r.arrivals))
}
