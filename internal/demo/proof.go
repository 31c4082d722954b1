package demo

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// Hold is one grant, as the worker that got it told it. Times are stamps.
type Hold struct {
	Worker    int   `json:"worker"`
	Goroutine int   `json:"goroutine"`
	Token     int64 `json:"token"`
	Wait      int64 `json:"wait"`  // Lock was called
	Grant     int64 `json:"grant"` // Lock had returned
	End       int64 `json:"end"`   // the last moment at which the worker is known to have held it; at least Grant
	How       How   `json:"how"`
}

// How is how a hold ended.
type How string

const (
	Unlocked How = "unlocked"
	Lost     How = "lost"
	Killed   How = "killed"
)

// Refusal is a write that a condition of the ledger refused (L1): that of the holder of Token, when the head had been written
// under By.
type Refusal struct{ Token, By int64 }

// Proof is one property, and what was found.
type Proof struct {
	Name     string   `json:"name"`
	OK       bool     `json:"ok"`
	Finding  string   `json:"finding"`
	Evidence []string `json:"evidence,omitempty"` // the first faults, when not OK
}

// Record is all that the proofs rest on.
type Record struct {
	Input    []Invoice
	Rows     []Row     // as read at the end, in the order of their numbers
	Arrivals []Arrival // in commit order
	Holds    []Hold    // in any order
	Refused  []Refusal
}

// mostEvidence bounds what is shown of many faults.
const mostEvidence = 10

// faults collects evidence.
type faults struct {
	n     int
	first []string
}

func (f *faults) add(format string, args ...any) {
	if f.n++; f.n <= mostEvidence {
		f.first = append(f.first, fmt.Sprintf(format, args...))
	}
}

func (f *faults) proof(name, good string) Proof {
	if f.n == 0 {
		return Proof{Name: name, OK: true, Finding: good}
	}
	return Proof{Name: name, Finding: fmt.Sprintf("%d faults", f.n), Evidence: f.first}
}

// Check proves P1 to P10 of the package's doc, or shows where they fail.
func Check(r *Record) []Proof {
	return []Proof{
		noGap(r), noDouble(r), everyLine(r), chain(r), tokensIncrease(r), tokensIssued(r), rowOrder(r), grantOrder(r), oneHolder(r),
		lockSufficed(r),
	}
}

func noGap(r *Record) Proof {
	var f faults
	there := map[int64]bool{}
	for i := range r.Rows {
		there[r.Rows[i].Number] = true
	}
	for n := int64(1); n <= int64(len(r.Input)); n++ {
		if !there[n] {
			f.add("invoice %d is missing", n)
		}
	}
	for _, n := range sortedKeys(there) {
		if n < 1 || n > int64(len(r.Input)) {
			f.add("invoice %d is outside 1 to %d", n, len(r.Input))
		}
	}
	return f.proof("no gap", fmt.Sprintf("invoices 1 to %d are all there", len(r.Input)))
}

func noDouble(r *Record) Proof {
	var f faults
	numbers, lines := map[int64]int{}, map[int64]int{}
	for i := range r.Rows {
		numbers[r.Rows[i].Number]++
		lines[r.Rows[i].Line]++
	}
	for _, n := range sortedKeys(numbers) {
		if c := numbers[n]; c > 1 {
			f.add("invoice %d is there %d times", n, c)
		}
	}
	for _, n := range sortedKeys(lines) {
		if c := lines[n]; c > 1 {
			f.add("input line %d was invoiced %d times", n, c)
		}
	}
	return f.proof("no double", fmt.Sprintf("%d rows, %d numbers", len(r.Rows), len(numbers)))
}

func everyLine(r *Record) Proof {
	var f faults
	lines := map[int64]*Row{}
	for i := range r.Rows {
		row := &r.Rows[i]
		lines[row.Line] = row
		if row.Line < 1 || row.Line > int64(len(r.Input)) {
			f.add("invoice %d is of line %d, which the input has not", row.Number, row.Line)
		}
	}
	for i, inv := range r.Input {
		switch row := lines[int64(i+1)]; {
		case row == nil:
			f.add("input line %d has no invoice", i+1)
		case row.Customer != inv.Customer || row.Amount != inv.Amount:
			f.add("invoice %d is %q %v, input line %d is %q %v", row.Number, row.Customer, row.Amount, i+1, inv.Customer, inv.Amount)
		}
	}
	return f.proof("every line once", fmt.Sprintf("%d lines of input, customer and amount as they stand there", len(r.Input)))
}

func chain(r *Record) Proof {
	var f faults
	prev, total := "", Cents(0)
	for i := range r.Rows {
		row := &r.Rows[i]
		total += row.Amount
		if row.Total != total {
			f.add("invoice %d: running total is %v, must be %v", row.Number, row.Total, total)
			total = row.Total
		}
		if row.Prev != prev {
			f.add("invoice %d: built on %.12s..., the row before has %.12s...", row.Number, row.Prev, prev)
		}
		if want := row.sum(); row.Hash != want {
			f.add("invoice %d: hash is %.12s..., its content has %.12s...", row.Number, row.Hash, want)
		}
		prev = row.Hash
	}
	return f.proof("unbroken chain", fmt.Sprintf("each row has the hash of the one before; total %v", total))
}

func tokensIncrease(r *Record) Proof {
	var f faults
	for i := 1; i < len(r.Rows); i++ {
		if a, b := &r.Rows[i-1], &r.Rows[i]; b.Token <= a.Token {
			f.add("invoice %d has token %d, invoice %d before it %d", b.Number, b.Token, a.Number, a.Token)
		}
	}
	return f.proof("tokens increase", fmt.Sprintf("strictly, over %d rows", len(r.Rows)))
}

func tokensIssued(r *Record) Proof {
	var f faults
	find := newFinder(r.Arrivals)
	holds := r.byToken()
	for i := range r.Rows {
		row := &r.Rows[i]
		if find.arrival(row.Token) < 0 {
			f.add("invoice %d has token %d, which no observed arrival was issued", row.Number, row.Token)
		}
		switch h := holds[row.Token]; {
		case h == nil:
			f.add("invoice %d has token %d, which no worker was granted", row.Number, row.Token)
		case h.Worker != row.Worker || h.Goroutine != row.Goroutine:
			f.add("invoice %d was written by worker %d/%d under token %d of worker %d/%d",
				row.Number, row.Worker, row.Goroutine, row.Token, h.Worker, h.Goroutine)
		}
	}
	return f.proof("tokens are the writers' own", "each was issued by the server, and granted to the one who wrote the row")
}

func rowOrder(r *Record) Proof {
	tokens := make([]int64, len(r.Rows))
	for i := range r.Rows {
		tokens[i] = r.Rows[i].Token
	}
	return inOrder("rows in order of arrival", tokens, r.Arrivals)
}

func grantOrder(r *Record) Proof {
	holds := slices.Clone(r.Holds)
	slices.SortFunc(holds, func(a, b Hold) int { return cmp.Compare(a.Grant, b.Grant) })
	tokens := make([]int64, len(holds))
	for i := range holds {
		tokens[i] = holds[i].Token
	}
	return inOrder("grants in order of arrival", tokens, r.Arrivals)
}

// inOrder compares an order of grants with the commit order of the arrivals. Numbers of one arrival are one
// process's calls, in their order.
func inOrder(name string, tokens []int64, arrivals []Arrival) Proof {
	var f faults
	find := newFinder(arrivals)
	for _, s := range find.overlaps {
		f.add("%s", s)
	}
	type key struct {
		arrival int
		token   int64
	}
	keys := make([]key, len(tokens))
	for i, t := range tokens {
		keys[i] = key{find.arrival(t), t}
		if keys[i].arrival < 0 {
			f.add("token %d is of no observed arrival", t)
		}
	}
	compare := func(a, b key) int { return cmp.Or(cmp.Compare(a.arrival, b.arrival), cmp.Compare(a.token, b.token)) }
	sorted := slices.Clone(keys)
	slices.SortFunc(sorted, compare)
	ranks := make([]int, len(keys))
	for i, k := range keys {
		ranks[i], _ = slices.BinarySearchFunc(sorted, k, compare)
	}
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			f.add("token %d was granted twice", sorted[i].token)
		}
	}
	pairs := inversions(ranks)
	for i := 1; i < len(keys) && f.n < mostEvidence; i++ {
		if a, b := keys[i-1], keys[i]; min(a.arrival, b.arrival) >= 0 && compare(a, b) > 0 {
			f.add("token %d of arrival %d came after token %d of arrival %d", b.token, b.arrival+1, a.token, a.arrival+1)
		}
	}
	if pairs > 0 && f.n == 0 {
		f.add("%d pairs are out of order", pairs) // cannot be: an inversion has a neighbouring one
	}
	p := f.proof(name, "")
	p.Finding = fmt.Sprintf("%d inversions in %d grants of %d arrivals", pairs, len(tokens), len(arrivals))
	return p
}

// inversions counts the pairs that stand in the wrong order, by merge sort: a number that is taken from the right half passes
// all that are left in the left half.
func inversions(ranks []int) int64 {
	var count func(a, buf []int) int64
	count = func(a, buf []int) int64 {
		if len(a) < 2 {
			return 0
		}
		mid := len(a) / 2
		n := count(a[:mid], buf[:mid]) + count(a[mid:], buf[mid:])
		copy(buf, a)
		for i, l, r := 0, 0, mid; i < len(a); i++ {
			if l < mid && (r == len(a) || buf[l] <= buf[r]) {
				a[i] = buf[l]
				l++
			} else {
				a[i] = buf[r]
				r++
				n += int64(mid - l)
			}
		}
		return n
	}
	return count(slices.Clone(ranks), make([]int, len(ranks)))
}

// oneHolder looks at holds in the order of their grants. It suffices to compare each with the latest end so far.
func oneHolder(r *Record) Proof {
	var f faults
	holds := slices.Clone(r.Holds)
	slices.SortFunc(holds, func(a, b Hold) int { return cmp.Compare(a.Grant, b.Grant) })
	last := -1 // the hold that ended last
	for i := range holds {
		if h := &holds[i]; last >= 0 && h.Grant < holds[last].End {
			l := &holds[last]
			f.add("worker %d/%d was granted token %d while worker %d/%d still held token %d, for %d us more",
				h.Worker, h.Goroutine, h.Token, l.Worker, l.Goroutine, l.Token, (l.End-h.Grant)/1000)
		}
		if last < 0 || holds[i].End > holds[last].End {
			last = i
		}
	}
	return f.proof("one holder at a time", fmt.Sprintf("%d holds, no two overlap", len(holds)))
}

// lockSufficed looks at the writes that were refused. Without the lock two who read the same head would both write, and the
// second be refused; under it that happens only when one of the two was given up for dead, which is what the conditions are
// for, or when the head that was read was an old one, as a deposed primary shows it: then the other had ended before.
func lockSufficed(r *Record) Proof {
	var f faults
	holds := r.byToken()
	for _, x := range r.Refused {
		mine, other := holds[x.Token], holds[x.By]
		switch {
		case x.Token == x.By: // a repeat, which met its own first attempt
		case mine == nil || other == nil:
			f.add("token %d was refused a write after one under token %d, of which one was granted to nobody", x.Token, x.By)
		case mine.How == Unlocked && other.How == Unlocked && other.End > mine.Grant:
			f.add("worker %d/%d with token %d and worker %d/%d with token %d were at the ledger at the same time, and neither had lost the lock",
				mine.Worker, mine.Goroutine, x.Token, other.Worker, other.Goroutine, x.By)
		}
	}
	good := "no write had to be refused"
	if n := len(r.Refused); n > 0 {
		good = fmt.Sprintf("%d writes refused, all because a holder had been killed or had lost the lock", n)
	}
	return f.proof("the lock sufficed", good)
}

// byToken is the holds by their tokens.
func (r *Record) byToken() map[int64]*Hold {
	holds := make(map[int64]*Hold, len(r.Holds))
	for i := range r.Holds {
		holds[r.Holds[i].Token] = &r.Holds[i]
	}
	return holds
}

// finder finds the arrival of a number.
type finder struct {
	byLo     []int // indices of arrivals, by Lo
	arrivals []Arrival
	overlaps []string // numbers that were issued twice, or ranges that are none
}

func newFinder(arrivals []Arrival) *finder {
	f := &finder{arrivals: arrivals, byLo: make([]int, len(arrivals))}
	for i := range arrivals {
		f.byLo[i] = i
		if a := arrivals[i]; a.Hi <= a.Lo {
			f.overlaps = append(f.overlaps, fmt.Sprintf("arrival %d was issued (%d, %d]: numbers went back", i+1, a.Lo, a.Hi))
		}
	}
	slices.SortStableFunc(f.byLo, func(a, b int) int { return cmp.Compare(arrivals[a].Lo, arrivals[b].Lo) })
	for i := 1; i < len(f.byLo); i++ {
		if a, b := arrivals[f.byLo[i-1]], arrivals[f.byLo[i]]; b.Lo < a.Hi {
			f.overlaps = append(f.overlaps, fmt.Sprintf("arrivals (%d, %d] and (%d, %d] share numbers", a.Lo, a.Hi, b.Lo, b.Hi))
		}
	}
	return f
}

// arrival is the index of the arrival that was issued n, -1 if there is none.
func (f *finder) arrival(n int64) int {
	i := sort.Search(len(f.byLo), func(i int) bool { return f.arrivals[f.byLo[i]].Lo >= n }) - 1
	if i < 0 || f.arrivals[f.byLo[i]].Hi < n {
		return -1
	}
	return f.byLo[i]
}

func sortedKeys[V any](m map[int64]V) []int64 {
	keys := make([]int64, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
