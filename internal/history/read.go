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

// call is what a history tells of one call that takes one lock.
type call struct {
	proc       int
	id, set    int64
	weight     int64
	lo, hi     int64
	called     clock.Instant
	start, end clock.Instant // the window; empty when end is not after start
	promised   clock.Instant // the latest Until
	known      clock.Instant // the latest time at which it knew
	forced     clock.Instant // the first time at which it was unlocked by force; 0: never
	told       clock.Instant // the first time at which it was told of a loss
	given      []part        // what was given back before the rest
	parts      []part        // of the window: those that are not empty
	events     []Event

	isGranted, released, lost, failed, killed bool
}

// part is some of the units of a grant, which are held from its start to an end.
type part struct {
	units int64
	end   clock.Instant
}

func (c *call) String() string {
	return fmt.Sprintf("{process %d call %d number %d to %d trusted from %d to %d}", c.proc, c.id, c.lo, c.hi, c.start, c.end)
}

// units is how many are trusted at the start of the window.
func (c *call) units() (n int64) {
	for _, p := range c.parts {
		n += p.units
	}
	return n
}

// left is how many units a grant has that were not given back.
func (c *call) left() int64 {
	n := c.weight
	for _, g := range c.given {
		n -= g.units
	}
	return n
}

// lockHistory is all that happened to one lock.
type lockHistory struct {
	name     string
	permits  int64
	calls    []*call // in the order of the events
	granted  []*call
	arrivals []Event
	windows  []*call                 // trusted
	forced   map[int64]clock.Instant // by token
	resized  []Event
	dropped  []Event // of all locks
}

// era is the numbers of a semaphore from one on, and the most permits that there were since it was issued.
type era struct {
	from, permits int64
}

// eras are those of a lock, the first of which is all of it.
func (l *lockHistory) eras() []era {
	all := []era{{0, l.permits}}
	for _, e := range l.resized {
		for i := range all {
			all[i].permits = max(all[i].permits, e.Permits)
		}
		all = append(all, era{e.Lo, e.Permits})
	}
	return all
}

// of are the calls whose numbers are of an era.
func (e era) of(calls []*call) []*call {
	return slices.DeleteFunc(calls, func(c *call) bool { return c.lo < e.from })
}

// trusted are the grants whose window is not empty, by its start.
func (l *lockHistory) trusted() []*call {
	if l.windows == nil {
		for _, c := range l.granted {
			if len(c.parts) > 0 {
				l.windows = append(l.windows, c)
			}
		}
		slices.SortStableFunc(l.windows, func(a, b *call) int { return cmp.Compare(a.start, b.start) })
	}
	return slices.Clone(l.windows)
}

// key is a call, or a set, of a process.
type key struct {
	proc int
	id   int64
}

// read sorts a history by lock, in the order of their names, and by what was taken together: a set, or a call by itself.
func read(events []Event, opts Options) ([]*lockHistory, [][]*call, []Violation) {
	locks, calls := map[string]*lockHistory{}, map[key]*call{}
	home := map[*call]*lockHistory{}
	sets := map[key]int{}
	var together [][]*call
	var bad []Violation
	of := func(name string) *lockHistory {
		l := locks[name]
		if l == nil {
			l = &lockHistory{name: name, forced: map[int64]clock.Instant{}}
			locks[name] = l
		}
		return l
	}
	var deaths, dropped []Event
	for _, e := range events {
		switch e.Kind {
		case Arrived:
			l := of(e.Lock)
			l.arrivals = append(l.arrivals, e)
			continue
		case Dropped:
			dropped = append(dropped, e)
			continue
		case Killed:
			deaths = append(deaths, e)
			continue
		case Forced:
			if at, again := of(e.Lock).forced[e.Lo]; !again || e.At < at {
				of(e.Lock).forced[e.Lo] = e.At
			}
			continue
		case Resized:
			of(e.Lock).resized = append(of(e.Lock).resized, e)
			continue
		case Call:
			l := of(e.Lock)
			c := &call{proc: e.Proc, id: e.Call, set: e.Set, weight: e.Units, called: e.At, events: []Event{e}}
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
			if at, known := sets[key{e.Proc, e.Set}]; known && e.Set != 0 {
				together[at] = append(together[at], c)
			} else {
				sets[key{e.Proc, e.Set}] = len(together)
				together = append(together, []*call{c})
			}
			continue
		}
		c := calls[key{e.Proc, e.Call}]
		if c == nil || c.failed || c.isGranted == (e.Kind == Granted || e.Kind == Failed) {
			bad = append(bad, violation(Own, []Event{e}, "process %d call %d: %s is out of order", e.Proc, e.Call, e.Kind))
			continue
		}
		c.events = append(c.events, e)
		if e.Kind == Reduced && (e.Units < 1 || e.Units >= c.left()) {
			bad = append(bad, violation(Own, c.events, "lock %q: %v gave back %d units of %d", home[c].name, c, e.Units, c.left()))
			continue
		}
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
		l.dropped = dropped
		for _, c := range l.granted {
			c.forced = l.forced[c.lo]
		}
		all = append(all, l)
	}
	for _, set := range together {
		forced := slices.ContainsFunc(set, func(c *call) bool { return c.forced > 0 })
		for _, c := range set {
			if forced && c.forced == 0 && c.lost {
				c.forced = c.told // losing one is losing all: who is told gives the others back at once
			}
			if c.isGranted {
				c.close(opts)
			}
		}
	}
	return all, together, bad
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
	case Reduced:
		if !c.released {
			c.given = append(c.given, part{e.Units, e.At})
		}
	case Lost:
		if !c.lost {
			c.told = e.At
		}
		c.lost = true
	}
}

// close ends the window of a grant, of whose units those that were given back before leave it earlier. Of one that was released it is the release, as far as the holder could trust: what it does
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
	if c.forced > 0 {
		until = min(until, c.forced)
	}
	c.end = until
	for _, p := range append(slices.Clone(c.given), part{c.left(), until}) {
		if p.end = min(p.end, until); p.end > c.start {
			c.parts = append(c.parts, p)
		}
	}
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
