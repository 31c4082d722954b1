package tally

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock"
)

// Metric makes the series of one metric whose labels have these values, with zero where it can. It is called once for each series.
type Metric func(values []string) Series

// Series takes in one event: a counter's is one more, and a histogram's took so many seconds. ctx is that of the call which it is about.
type Series func(ctx context.Context, seconds float64)

// Metrics are what an observer is told, as metrics of one adapter. It is safe for concurrent use.
type Metrics struct {
	Managers
	acquire, wait, hold, release, lost, renew, renewal, reopens, opening *metric
}

// New has the adapter add each metric. lock is the label for the names of locks; "": no metric has it.
func New(lock string, add func(Event) Metric) *Metrics {
	of := func(e Event) *metric {
		m := &metric{named: e.named && lock != "", all: map[values]Series{}}
		if m.named {
			e.Labels, e.first = append(slices.Clone(e.Labels), lock), nil // whose names come is not known
		}
		m.begin = add(e)
		for _, v := range e.first {
			m.series(v)
		}
		return m
	}
	return &Metrics{
		acquire: of(acquire), wait: of(wait), hold: of(hold), release: of(release), lost: of(lost),
		renew: of(renew), renewal: of(renewal), reopens: of(reopens), opening: of(opening),
	}
}

// Observer is what a manager's Config needs to be counted here. Several managers can have it.
func (m *Metrics) Observer() *fairlock.Observer {
	return &fairlock.Observer{
		Made: m.Made, Closed: m.Closed,
		Acquired: func(ctx context.Context, a fairlock.Acquired) context.Context {
			m.acquire.add(ctx, 0, a.Name, a.Kind, a.Outcome())
			if a.Err == nil {
				m.wait.add(ctx, a.Waited, a.Name, a.Kind)
			}
			return ctx
		},
		Ended: func(ctx context.Context, e fairlock.Ended) {
			m.hold.add(ctx, e.Held, e.Name, e.Kind)
			switch {
			case errors.Is(e.Err, fairlock.ErrLost):
				m.lost.add(ctx, 0, e.Name, e.Reason())
			case !e.Undone: // nobody waited for what LockAll gave back
				m.release.add(ctx, e.Handed, e.Name, e.Kind)
			}
		},
		Renewed: func(r fairlock.Renewed) {
			outcome := renewed
			if r.Err != nil {
				outcome = failed
			}
			m.renew.add(context.Background(), 0, "", outcome)
			m.renewal.add(context.Background(), r.Took, "")
		},
		StreamOpened: func(took time.Duration) { m.opening.add(context.Background(), took, "") },
		StreamFailed: func(f fairlock.StreamFailed) { m.reopens.add(context.Background(), 0, "", f.Reason) },
	}
}

// metric is one of them. It keeps its series, so that an event of one that there is costs no more than to find it.
type metric struct {
	begin Metric
	named bool

	mu  sync.RWMutex // guards all
	all map[values]Series
}

// values are those of a series' labels. No metric has more than two of its own.
type values [3]string

// add takes in an event, which took d in a histogram, of the lock of that name.
func (m *metric) add(ctx context.Context, d time.Duration, lock string, labels ...string) {
	var all values // not on the heap
	of := append(all[:0], labels...)
	if m.named {
		of = append(of, lock)
	}
	m.series(of)(ctx, d.Seconds())
}

// series is the one whose labels have these values.
func (m *metric) series(of []string) Series {
	var key values
	copy(key[:], of)
	m.mu.RLock()
	s := m.all[key]
	m.mu.RUnlock()
	if s == nil {
		s = m.make(key, of)
	}
	return s
}

// make makes it, unless somebody else was first.
func (m *metric) make(key values, of []string) Series {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.all[key]
	if s == nil {
		s = m.begin(slices.Clone(of))
		m.all[key] = s
	}
	return s
}
