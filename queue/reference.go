package queue

// Reference is the lock document and its writes in plain Go: what the pipelines must do, and what the property test
// compares them with. The numbers of a new document start at Base.
type Reference struct {
	Shape
	Issued, Settled, Frontier int64
	Done                      []Range
	Arrivals, Reached, Calls  int64
	Managed                   bool
	Idle                      bool
}

// NewReference is the document as the first enqueue or try finds it.
func NewReference(shape Shape, base int64) *Reference {
	return &Reference{Shape: shape, Issued: base, Settled: base, Frontier: base + shape.Permits}
}

// Enqueue issues units numbers (I1).
func (l *Reference) Enqueue(units int64) Range {
	l.Issued += units
	l.Arrivals++
	l.Idle = false
	return Range{l.Issued - units + 1, l.Issued}
}

// EnqueueWithin is Enqueue if no more than limit units wait then; otherwise it changes nothing.
func (l *Reference) EnqueueWithin(units, limit int64) (Range, bool) {
	if limit > 0 && excess(l.Issued, l.Frontier, l.Done)+units > limit {
		return Range{}, false
	}
	return l.Enqueue(units), true
}

// Try issues units numbers if they are admitted at once, and otherwise changes nothing.
func (l *Reference) Try(units int64) (Range, bool) {
	if l.Issued+units > l.Frontier {
		return Range{}, false
	}
	return l.Enqueue(units), true
}

// Settle ends the numbers of ranges and reports whether any of them was not settled before.
func (l *Reference) Settle(ranges []Range, arrival int64) bool {
	fresh := false
	for _, r := range ranges {
		fresh = fresh || !l.IsSettled(r)
	}
	last := Range{}
	for _, r := range ranges {
		last.Hi = max(last.Hi, r.Hi)
	}
	if !fresh || last.Hi > l.Issued {
		return false
	}
	l.absorb(ranges...)
	was := l.Frontier
	l.Frontier = max(was, frontier(l.Settled, l.Done, l.Permits))
	if l.Frontier > was && l.Issued > was {
		l.Calls++
	}
	l.Reached = max(l.Reached, arrival)
	l.Idle = l.Settled == l.Issued && !l.Managed
	return true
}

func (l *Reference) absorb(ranges ...Range) {
	for _, r := range ranges {
		l.Done = union(l.Done, r)
	}
	for len(l.Done) > 0 && l.Done[0].Lo <= l.Settled+1 {
		l.Settled = max(l.Settled, l.Done[0].Hi)
		l.Done = l.Done[1:]
	}
}

// SetPermits changes the permits. Who is admitted stays so: frontier never goes down (I2). The numbers that it promised and that nobody has are
// nobody's any more when there are fewer permits.
func (l *Reference) SetPermits(permits int64) {
	if permits < l.Permits && l.Frontier > l.Issued {
		l.absorb(Range{l.Issued + 1, l.Frontier})
		l.Issued = l.Frontier
	}
	l.Permits, l.Managed, l.Idle = permits, true, false
	l.Frontier = max(l.Frontier, frontier(l.Settled, l.Done, permits))
	l.Calls++
}

// Force settles a range that is admitted and not settled, with the passed numbers before it, and otherwise changes nothing. Everybody is
// called, though perhaps nobody is admitted by it.
func (l *Reference) Force(passed int64, r Range) bool {
	all := Range{r.Lo - passed, r.Hi}
	if r.Hi > l.Frontier && (l.Settled < all.Lo-1 || r.Units() > l.Permits) || l.IsSettled(r) {
		return false
	}
	done := l.Settle([]Range{all}, 0)
	if done {
		l.Calls++
	}
	return done
}

// IsSettled reports whether all numbers of r are settled.
func (l *Reference) IsSettled(r Range) bool {
	if r.Hi <= l.Settled {
		return true
	}
	for _, d := range l.Done {
		if d.Lo <= r.Lo && r.Hi <= d.Hi {
			return true
		}
	}
	return false
}
