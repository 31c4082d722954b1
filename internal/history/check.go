package history

import (
	"cmp"
	"fmt"
	"slices"
)

// Rule names what a violation breaks; the package comment says what each means.
type Rule string

// The rules, in the order in which they are checked.
const (
	Exclusion Rule = "exclusion"
	Tokens    Rule = "tokens"
	Own       Rule = "own"
	Arrivals  Rule = "arrivals"
	Order     Rule = "order"
	Stranded  Rule = "stranded"
	Together  Rule = "together"
	Final     Rule = "final"
)

// Options say what holds in a history beyond the usual.
type Options struct {
	// Without leaves rules out.
	Without []Rule
	// Revoked says that somebody with his hands in the database may have taken locks from their holders before the promised
	// end: a loss then cuts a window to what the holder last knew.
	Revoked bool
}

// Violation is one breach of a rule.
type Violation struct {
	Rule   Rule
	Detail string
	Events []Event // that show it
}

func (v Violation) String() string { return string(v.Rule) + ": " + v.Detail }

// Check returns every violation in a history, which may come in any order across processes, but must be in order within each
// process. A history that contradicts itself (a grant without a call, say) is a violation of Own.
func Check(events []Event, opts Options) []Violation {
	h, sets, bad := read(events, opts)
	for _, r := range []struct {
		rule  Rule
		check func(*lockHistory) []Violation
	}{{Exclusion, each(exclusion)}, {Tokens, tokens}, {Own, own}, {Arrivals, arrivals}, {Order, each(order)}, {Stranded, stranded}} {
		if slices.Contains(opts.Without, r.rule) {
			continue
		}
		for _, l := range h {
			bad = append(bad, r.check(l)...)
		}
	}
	for _, r := range []struct {
		rule  Rule
		check func([]*call) []Violation
	}{{Together, together}, {Final, final}} {
		if slices.Contains(opts.Without, r.rule) {
			continue
		}
		for _, s := range sets {
			bad = append(bad, r.check(s)...)
		}
	}
	return bad
}

func violation(r Rule, events []Event, format string, args ...any) Violation {
	return Violation{Rule: r, Detail: fmt.Sprintf(format, args...), Events: events}
}

// each makes a check of all eras of a lock of one that is given the windows and the permits of an era.
func each(check func(lock string, windows []*call, permits int64) []Violation) func(*lockHistory) []Violation {
	return func(l *lockHistory) (bad []Violation) {
		for _, e := range l.eras() {
			bad = append(bad, check(l.name, e.of(l.trusted()), e.permits)...)
		}
		return bad
	}
}

// exclusion walks over the ends and starts of the windows in the order of time.
func exclusion(lock string, windows []*call, permits int64) []Violation {
	type edge struct {
		at    int64
		start bool
		units int64
		c     *call
	}
	var edges []edge
	for _, c := range windows {
		edges = append(edges, edge{int64(c.start), true, c.units(), c})
		for _, p := range c.parts {
			edges = append(edges, edge{int64(p.end), false, p.units, c})
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int {
		if c := cmp.Compare(a.at, b.at); c != 0 {
			return c
		}
		// A window does not contain its end.
		return cmp.Compare(b2i(a.start), b2i(b.start))
	})
	var bad []Violation
	var units int64
	var open []*call
	for _, e := range edges {
		if !e.start {
			units -= e.units
			if e.at == int64(e.c.end) {
				open = slices.DeleteFunc(open, func(c *call) bool { return c == e.c })
			}
			continue
		}
		units += e.units
		open = append(open, e.c)
		if units > permits {
			var shown []Event
			for _, c := range open {
				shown = append(shown, c.events...)
			}
			bad = append(bad, violation(Exclusion, shown, "lock %q: %d units are trusted at %d, permits are %d: %v",
				lock, units, e.at, permits, open))
		}
	}
	return bad
}

func tokens(l *lockHistory) []Violation {
	var bad []Violation
	granted := slices.Clone(l.granted)
	slices.SortStableFunc(granted, func(a, b *call) int { return cmp.Compare(a.lo, b.lo) })
	for i := 1; i < len(granted); i++ {
		if a, b := granted[i-1], granted[i]; b.lo <= a.hi {
			bad = append(bad, violation(Tokens, both(a, b), "lock %q: a number was granted twice: %v and %v", l.name, a, b))
		}
	}
	// Two that cannot be held at the same time: one of them takes all permits that there ever were.
	permits := l.eras()[0].permits
	var alone, all *call // the highest numbers of windows that began before this instant
	inTime := l.trusted()
	for i := 0; i < len(inTime); {
		now := i
		for ; i < len(inTime) && inTime[i].start == inTime[now].start; i++ {
			b, a := inTime[i], alone
			if b.weight == permits {
				a = all
			}
			if a == nil || b.lo >= a.lo {
				continue
			}
			if a = l.overtaker(b, inTime[:now], permits); a != nil {
				bad = append(bad, violation(Tokens, both(a, b), "lock %q: token %d was granted after %d: %v and %v", l.name, b.lo, a.lo, a, b))
			}
		}
		for _, c := range inTime[now:i] {
			if all == nil || c.lo > all.lo {
				all = c
			}
			if c.weight == permits && (alone == nil || c.lo > alone.lo) {
				alone = c
			}
		}
	}
	return bad
}

// overtaker is one of those that were granted before with a higher number, though both cannot be held at the same time, and though no drop of the documents
// parts the two; nil if there is none.
func (l *lockHistory) overtaker(c *call, before []*call, permits int64) *call {
	for _, a := range before {
		if a.lo > c.lo && (a.weight == permits || c.weight == permits) && !l.parted(c, a) {
			return a
		}
	}
	return nil
}

// parted reports whether there was a drop before which the one number can have been issued, and after which the other can have been.
func (l *lockHistory) parted(old, young *call) bool {
	o, y := l.arrival(old), l.arrival(young)
	return slices.ContainsFunc(l.dropped, func(d Event) bool { return o.Sent <= d.At && y.At >= d.Sent })
}

// arrival is the one that a grant's numbers are of; the zero event if there is none.
func (l *lockHistory) arrival(c *call) Event {
	for _, a := range l.arrivals {
		if a.Proc == c.proc && a.Lo <= c.lo && c.lo <= a.Hi {
			return a
		}
	}
	return Event{}
}

func own(l *lockHistory) []Violation {
	type proc struct{ arrivals []Event }
	procs := map[int]*proc{}
	for _, a := range l.arrivals {
		if procs[a.Proc] == nil {
			procs[a.Proc] = &proc{}
		}
		procs[a.Proc].arrivals = append(procs[a.Proc].arrivals, a)
	}
	for _, p := range procs {
		slices.SortFunc(p.arrivals, func(a, b Event) int { return cmp.Compare(a.Lo, b.Lo) })
	}
	var bad []Violation
	for _, c := range l.granted {
		p := procs[c.proc]
		if p == nil {
			bad = append(bad, violation(Own, c.events, "lock %q: %v was granted without any acknowledged arrival of its process", l.name, c))
			continue
		}
		i, exact := slices.BinarySearchFunc(p.arrivals, c.lo, func(a Event, lo int64) int { return cmp.Compare(a.Lo, lo) })
		if !exact {
			i--
		}
		if i < 0 || p.arrivals[i].Hi < c.hi || p.arrivals[i].Lo > c.lo {
			bad = append(bad, violation(Own, c.events, "lock %q: %v is in no acknowledged arrival of its process", l.name, c))
		} else if a := p.arrivals[i]; a.At < c.called {
			bad = append(bad, violation(Own, append(slices.Clone(c.events), a), "lock %q: %v was called after its arrival was acknowledged at %d",
				l.name, c, a.At))
		}
	}
	return bad
}

// arrivals goes through those that were sent in the order of time, and keeps the highest number among those that were acknowledged
// before.
func arrivals(l *lockHistory) []Violation {
	bySent := slices.Clone(l.arrivals)
	slices.SortStableFunc(bySent, func(a, b Event) int { return cmp.Compare(a.Sent, b.Sent) })
	byAck := slices.Clone(l.arrivals)
	slices.SortStableFunc(byAck, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	var bad []Violation
	var highest Event
	next := 0
	for _, b := range bySent {
		for ; next < len(byAck) && byAck[next].At < b.Sent; next++ {
			if byAck[next].Hi > highest.Hi {
				highest = byAck[next]
			}
		}
		if next > 0 && b.Lo <= highest.Hi {
			bad = append(bad, violation(Arrivals, []Event{highest, b},
				"lock %q: %d to %d was acknowledged at %d, and %d to %d was sent later, at %d",
				l.name, highest.Lo, highest.Hi, highest.At, b.Lo, b.Hi, b.Sent))
		}
	}
	return bad
}

// order goes through the trusted grants by number. A number before another was issued before it, and is unsettled for sure
// until its window ends; so at the moment of a grant those with lower numbers whose windows end later, also such as have not
// begun yet, take up permits.
func order(lock string, byNumber []*call, permits int64) []Violation {
	slices.SortStableFunc(byNumber, func(a, b *call) int { return cmp.Compare(a.lo, b.lo) })
	ends := newTally(byNumber)
	var bad []Violation
	for i, b := range byNumber {
		if before := ends.above(b.start); before+b.units() > permits {
			shown := slices.Clone(b.events)
			var who []*call
			for _, a := range byNumber[:i] {
				if a.end > b.start {
					who = append(who, a)
					shown = append(shown, a.events...)
				}
			}
			bad = append(bad, violation(Order, shown, "lock %q: %v was granted past %v, permits are %d", lock, b, who, permits))
		}
		for _, p := range b.parts {
			ends.add(p.end, p.units)
		}
	}
	return bad
}

func stranded(l *lockHistory) []Violation {
	var bad []Violation
	for _, c := range l.calls {
		switch {
		case c.killed:
		case !c.isGranted && !c.failed:
			bad = append(bad, violation(Stranded, c.events, "lock %q: %v has not returned", l.name, c))
		case c.isGranted && !c.released && !c.lost:
			bad = append(bad, violation(Stranded, c.events, "lock %q: %v was neither released nor lost", l.name, c))
		}
	}
	return bad
}

// together looks at what was taken together.
func together(set []*call) []Violation {
	var granted, failed *call
	for _, c := range set {
		switch {
		case c.isGranted:
			granted = c
		case c.failed:
			failed = c
		}
	}
	if granted == nil || failed == nil {
		return nil
	}
	return []Violation{violation(Together, both(granted, failed), "process %d set %d: of one call of LockAll %v was granted and %v was not",
		granted.proc, granted.set, granted, failed)}
}

// final goes by the first loss that was told.
func final(set []*call) []Violation {
	var lost *call
	for _, c := range set {
		if c.lost && (lost == nil || c.told < lost.told) {
			lost = c
		}
	}
	var bad []Violation
	for _, c := range set {
		if lost != nil && c.known > lost.told {
			bad = append(bad, violation(Final, both(lost, c), "process %d: the loss of %v was told at %d, and at %d that %v is held",
				c.proc, lost, lost.told, c.known, c))
		}
	}
	return bad
}

func both(a, b *call) []Event { return append(slices.Clone(a.events), b.events...) }

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
