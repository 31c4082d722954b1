package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/fairlock/fairlock/internal/clock"
)

// call is what a history tells of one call of Lock or TryLock.
type call struct {
	proc       int
	id         int64
	weight     int64
	lo, hi     int64
	called     clock.Instant
	start, end clock.Instant // the window; empty when end is not after start
	promised   clock.Instant // the latest Until
	known      clock.Instant // the latest time at which it knew
	events     []Event

	isGranted, released, lost, failed, killed bool
}

func (c *call) String() string {
	return fmt.Sprintf("{process %d call %d number %d to %d trusted from %d to %d}", c.proc, c.id, c.lo, c.hi, c.start, c.end)
}

func (c *call) units() int64 { return c.weight }

// lockHistory is all that happened to one lock.
type lockHistory struct {
	name     string
	permits  int64
	calls    []*call // in the order of the events
	granted  []*call
	arrivals []Event
	windows  []*call // trusted
}

// trusted are the calls whose window is not empty, by its start.
func (l *lockHistory) trusted() []*call {
	if l.windows == nil {
		for _, c := range l.granted {
			if c.end > c.start {
				l.windows = append(l.windows, c)
			}
		}
		slices.SortStableFunc(l.windows, func(a, b *call) int { return cmp.Compare(a.start, b.start) })
	}
	return slices.Clone(l.windows)
}

// read sorts a history by lock, in the order of their names.
func read(events []Event, opts Options) ([]*lockHistory, []Violation) {
	type key struct {
		proc int
		id   int64
	}
	locks, calls := map[string]*lockHistory{}, map[key]*call{}
	home := map[*call]*lockHistory{}
	var bad []Violation
	of := func(name string) *lockHistory {
		l := locks[name]
		if l == nil {
			l = &lockHistory{name: name}
			locks[name] = l
		}
		return l
	}
	var deaths []Event
	for _, e := range events {
		switch e.Kind {
		case Arrived:
			l := of(e.Lock)
			l.arrivals = append(l.arrivals, e)
			continue
		case Killed:
			deaths = append(deaths, e)
			continue
		case Call:
			l := of(e.Lock)
			c := &call{proc: e.Proc, id: e.Call, weight: e.Units, called: e.At, events: []Event{e}}
			if old := calls[key{e.Proc, e.Call}]; old != nil {
				bad = append(bad, violation(Own, both(old, c), "process %d has two calls %d", e.Proc, e.Call))
				continue
			}
			if l.permits != 0 && l.permits != e.Permits {
				bad = append(bad, violation(Own, c.events, "lock %q has %d permits and %d", e.Lock, l.permits, e.Permits))
			}
			l.permits = e.Permits
			l.calls = append(l.calls, c)
			calls[key{e.Proc, e.Call}], home[c] = c, l
			continue
		}
		c := calls[key{e.Proc, e.Call}]
		if c == nil || c.failed || c.isGranted == (e.Kind == Granted || e.Kind == Failed) {
			bad = append(bad, violation(Own, []Event{e}, "process %d call %d: %s is out of order", e.Proc, e.Call, e.Kind))
			continue
		}
		c.events = append(c.events, e)
		c.take(e)
		if c.isGranted && e.Kind == Granted {
			l := home[c]
			l.granted = append(l.granted, c)
			if c.hi-c.lo+1 != c.weight {
				bad = append(bad, violation(Own, c.events, "lock %q: %v asked for %d units", l.name, c, c.weight))
			}
		}
	}
	for _, d := range deaths {
		for k, c := range calls {
			// What it did before it was killed counts; what it has promised stands.
			if k.proc == d.Proc {
				c.killed = true
			}
		}
	}
	var all []*lockHistory
	for _, name := range slices.Sorted(maps.Keys(locks)) {
		l := locks[name]
		for _, c := range l.granted {
			c.close(opts)
		}
		all = append(all, l)
	}
	return all, bad
}

func (c *call) take(e Event) {
	switch e.Kind {
	case Granted:
		c.isGranted = true
		c.lo, c.hi, c.start = e.Lo, e.Hi, e.At
	case Failed:
		c.failed = true
	case Trusted:
		if c.released {
			return // asked beside the release: what came first is not known
		}
		c.known = max(c.known, e.At)
		c.promised = max(c.promised, e.Until)
	case Released:
		if !c.released {
			c.end = e.At
		}
		c.released = true
	case Lost:
		c.lost = true
	}
}

// close ends the window of a grant. Of one that was released it is the release, as far as the holder could trust: what it does
// after its promise has run out, without asking, is not covered. Of one that was lost, or whose process is dead or not heard of any
// more, it is the promise.
func (c *call) close(opts Options) {
	until := c.promised
	if c.lost && opts.Revoked {
		until = c.known
	}
	if c.released {
		until = min(until, c.end)
	}
	c.end = until
}

// Read reads what [Lines] wrote.
func Read(r io.Reader) ([]Event, error) {
	var events []Event
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for n := 1; in.Scan(); n++ {
		var e Event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("history: line %d: %w", n, err)
		}
		events = append(events, e)
	}
	return events, in.Err()
}
