package demo

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// sound is a record in which nothing is wrong: 12 invoices by 3 workers with 2 goroutines. Arrivals are of two numbers, but
// for one of which the second number died with its owner.
func sound() *Record {
	r := &Record{}
	h := head{}
	at, number := int64(1000), int64(7_000_000)
	for i := range 12 {
		inv := Invoice{Customer: string(rune('A' + i)), Amount: Cents(100*i - 250)}
		r.Input = append(r.Input, inv)
		if i%2 == 0 {
			r.Arrivals = append(r.Arrivals, Arrival{number, number + 2})
		}
		number++
		by := writer{token: number, worker: i/2%3 + 1, goroutine: i%2 + 1}
		if i == 7 {
			r.Arrivals = append(r.Arrivals, Arrival{number, number + 1}) // killed while it waited: never granted
			number++
		}
		row := h.next(inv, by)
		h = head{row.Number, row.Total, row.Hash, row.Token, &row}
		r.Rows = append(r.Rows, row)
		r.Holds = append(r.Holds, Hold{by.worker, by.goroutine, by.token, at - 500, at, at + 80, Unlocked})
		at += 100
	}
	return r
}

// seal makes the chain fit again after a row was changed: only what the change is about shall show.
func seal(r *Record) {
	prev, total := "", Cents(0)
	for i := range r.Rows {
		row := &r.Rows[i]
		total += row.Amount
		row.Prev, row.Total = prev, total
		row.Hash = row.sum()
		prev = row.Hash
	}
}

func TestProofsHold(t *testing.T) {
	t.Parallel()
	proofs := Check(sound())
	require.Len(t, proofs, 10)
	for _, p := range proofs {
		require.True(t, p.OK, "%s: %s %v", p.Name, p.Finding, p.Evidence)
		require.Empty(t, p.Evidence)
	}
}

// TestRefusalsExplained: what the conditions are for is no failure of the lock.
func TestRefusalsExplained(t *testing.T) {
	t.Parallel()
	r := sound()
	r.Holds[3].How, r.Holds[8].How = Killed, Lost
	token := func(i int) int64 { return r.Holds[i].Token }
	r.Refused = []Refusal{
		{token(4), token(3)}, // the late write of a dead holder came between
		{token(8), token(9)}, // this one had lost the lock
		{token(6), token(6)}, // a repeat
		{token(6), token(5)}, // read from a deposed primary
	}
	for _, p := range Check(r) {
		require.True(t, p.OK, "%s: %v", p.Name, p.Evidence)
	}
}

// TestProofsFail corrupts a sound record in every way that is claimed to be found.
func TestProofsFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		corrupt func(r *Record)
		fails   []string // exactly these
		says    string
	}{
		"gap": {func(r *Record) {
			r.Rows = slices.Delete(r.Rows, 4, 5)
			r.Rows[4].Line = 5 // the line itself was not lost
			r.Rows[4].Customer, r.Rows[4].Amount = r.Input[4].Customer, r.Input[4].Amount
			r.Input = slices.Delete(slices.Clone(r.Input), 11, 12)
			for i := 5; i < len(r.Rows); i++ {
				r.Rows[i].Line--
				r.Rows[i].Customer, r.Rows[i].Amount = r.Input[r.Rows[i].Line-1].Customer, r.Input[r.Rows[i].Line-1].Amount
			}
			seal(r)
		}, []string{"no gap"}, "invoice 5 is missing"},
		"missing line": {func(r *Record) {
			r.Rows = r.Rows[:11]
		}, []string{"no gap", "every line once"}, "input line 12 has no invoice"},
		"number twice": {func(r *Record) {
			r.Rows[5].Number = 5
			seal(r)
		}, []string{"no gap", "no double"}, "invoice 5 is there 2 times"},
		"line twice": {func(r *Record) {
			r.Rows[5].Line, r.Rows[5].Customer, r.Rows[5].Amount = 5, r.Rows[4].Customer, r.Rows[4].Amount
			seal(r)
		}, []string{"no double", "every line once"}, "input line 5 was invoiced 2 times"},
		"row too many": {func(r *Record) {
			h := head{N: 12, Total: r.Rows[11].Total, Hash: r.Rows[11].Hash}
			by := writer{r.Rows[11].Token + 1, 1, 1}
			r.Rows = append(r.Rows, h.next(r.Input[0], by))
			r.Arrivals = append(r.Arrivals, Arrival{by.token - 1, by.token})
			r.Holds = append(r.Holds, Hold{1, 1, by.token, 0, 1e6, 1e6, Unlocked})
		}, []string{"no gap", "every line once"}, "invoice 13 is outside 1 to 12"},
		"other amount": {func(r *Record) {
			r.Rows[3].Amount++
			seal(r)
		}, []string{"every line once"}, "invoice 4"},
		"other customer": {func(r *Record) {
			r.Rows[3].Customer = "Z"
			seal(r)
		}, []string{"every line once"}, "invoice 4"},
		"total": {func(r *Record) {
			r.Rows[3].Total++
		}, []string{"unbroken chain"}, "invoice 4: running total"},
		"two built on one": {func(r *Record) {
			r.Rows[6].Prev = r.Rows[4].Hash
			r.Rows[6].Hash = r.Rows[6].sum()
		}, []string{"unbroken chain"}, "invoice 7: built on"},
		"content changed later": {func(r *Record) {
			r.Rows[6].Goroutine = 3
		}, []string{"unbroken chain", "tokens are the writers' own"}, "invoice 7: hash is"},
		"token goes back": {func(r *Record) {
			r.Rows[2].Token, r.Rows[8].Token = r.Rows[8].Token, r.Rows[2].Token
			r.Rows[2].Worker, r.Rows[8].Worker = r.Rows[8].Worker, r.Rows[2].Worker
			seal(r)
		}, []string{"tokens increase", "rows in order of arrival"}, "invoice 4 has token"},
		"token twice": {func(r *Record) {
			r.Rows[1].Token, r.Rows[1].Goroutine = r.Rows[0].Token, r.Rows[0].Goroutine
			seal(r)
		}, []string{"tokens increase", "rows in order of arrival"}, "invoice 2 has token"},
		"granted twice": {func(r *Record) {
			h := r.Holds[11]
			h.Grant, h.End = h.End+1, h.End+2
			r.Holds = append(r.Holds, h)
		}, []string{"grants in order of arrival"}, "was granted twice"},
		"token never issued": {func(r *Record) {
			r.Rows[11].Token = 9_000_000
			r.Holds[11].Token = 9_000_000
			seal(r)
		}, []string{"tokens are the writers' own", "rows in order of arrival", "grants in order of arrival"}, "no observed arrival"},
		"token never granted": {func(r *Record) {
			r.Holds = slices.Delete(r.Holds, 6, 7)
		}, []string{"tokens are the writers' own"}, "no worker was granted"},
		"token of another": {func(r *Record) {
			r.Rows[6].Worker = 9
			seal(r)
		}, []string{"tokens are the writers' own"}, "under token"},
		// The server numbered them well, but one was let in before its turn and then wrote nothing.
		"overtaken without a row": {func(r *Record) {
			r.Arrivals = append(r.Arrivals, Arrival{7_000_100, 7_000_101})
			r.Holds = append(r.Holds, Hold{3, 1, 7_000_101, 1, 1290, 1295, Unlocked})
		}, []string{"grants in order of arrival"}, "came after token 7000101"},
		// Numbers increase from row to row, but the arrivals were committed in another order.
		"numbers against arrivals": {func(r *Record) {
			r.Arrivals[1], r.Arrivals[3] = r.Arrivals[3], r.Arrivals[1]
		}, []string{"rows in order of arrival", "grants in order of arrival"}, "came after"},
		"number issued twice": {func(r *Record) {
			r.Arrivals = append(r.Arrivals, Arrival{7_000_002, 7_000_003})
		}, []string{"tokens are the writers' own", "rows in order of arrival", "grants in order of arrival"}, "share numbers"},
		"numbers go back": {func(r *Record) {
			r.Arrivals = append(r.Arrivals, Arrival{8_000_000, 7_999_000})
		}, []string{"rows in order of arrival", "grants in order of arrival"}, "numbers went back"},
		"two holders": {func(r *Record) {
			r.Holds[4].End = r.Holds[5].Grant + 1
		}, []string{"one holder at a time"}, "still held token"},
		"held over several": {func(r *Record) {
			r.Holds[4].End = r.Holds[8].Grant + 1
		}, []string{"one holder at a time"}, "4 faults"},
		"two at the ledger": {func(r *Record) {
			r.Holds[5].End = r.Holds[6].Grant + 1
			r.Refused = []Refusal{{r.Holds[6].Token, r.Holds[5].Token}}
		}, []string{"one holder at a time", "the lock sufficed"}, "neither had lost the lock"},
		"refused after nobody's write": {func(r *Record) {
			r.Refused = []Refusal{{r.Holds[6].Token, 1}}
		}, []string{"the lock sufficed"}, "granted to nobody"},
		"nothing": {func(r *Record) { r.Rows = nil }, []string{"no gap", "every line once"}, "invoice 1 is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := sound()
			c.corrupt(r)
			var fails []string
			said := ""
			for _, p := range Check(r) {
				if !p.OK {
					fails = append(fails, p.Name)
					require.NotEmpty(t, p.Evidence, "a failure without evidence")
					require.LessOrEqual(t, len(p.Evidence), mostEvidence)
				}
				said += p.Finding + "\n"
				for _, e := range p.Evidence {
					said += e + "\n"
				}
			}
			require.Equal(t, c.fails, fails, said)
			require.Contains(t, said, c.says)
		})
	}
}

func TestInversions(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		ranks := rng.Perm(rng.IntN(40))
		for i := range ranks {
			ranks[i] /= 1 + i%2 // with equal ones
		}
		var want int64
		for i := range ranks {
			for j := range i {
				if ranks[j] > ranks[i] {
					want++
				}
			}
		}
		before := slices.Clone(ranks)
		require.Equal(t, want, inversions(ranks), "%v", ranks)
		require.Equal(t, before, ranks)
	}
}

func TestFinder(t *testing.T) {
	t.Parallel()
	f := newFinder([]Arrival{{10, 12}, {20, 21}, {12, 13}})
	for n, want := range map[int64]int{10: -1, 11: 0, 12: 0, 13: 2, 14: -1, 20: -1, 21: 1, 22: -1, 0: -1} {
		require.Equal(t, want, f.arrival(n), n)
	}
	require.Empty(t, f.overlaps)
	require.Equal(t, -1, newFinder(nil).arrival(1))
}
