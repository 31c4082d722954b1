package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/bench/recipes"
	"github.com/fairlock/fairlock/bench/run"
	"github.com/fairlock/fairlock/bench/stats"
)

// Recipe reports whether kind is one of the recipes that fairlock replaces.
func Recipe(kind string) bool {
	for _, k := range recipes.Kinds() {
		if k.Name == kind {
			return true
		}
	}
	return false
}

// reaching is how many acquisitions a second went to another contender than the one before.
func reaching(r run.Row) float64 { return r.PerSecond * r.OtherShare }

// fairest is the run of n processes and a hold of 0 that shares the lock most evenly: the others ask less because they leave the lock to
// whoever had it last. Jain's indices that agree in two digits are equal, and then the one that hands over more often is better. Nil if
// there is none.
func fairest(rows []run.Row, n int) (best *run.Row) {
	jain := func(r run.Row) float64 { return math.Round(100 * r.Jain) }
	for i, row := range rows {
		if row.N != n || row.HoldMS != 0 || row.Grants == 0 {
			continue
		}
		if best == nil || jain(row) > jain(*best) || jain(row) == jain(*best) && reaching(row) > reaching(*best) {
			best = &rows[i]
		}
	}
	return best
}

func recipesOf(rows []run.Row) []run.Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r run.Row) bool { return !Recipe(r.Kind) })
}

// polledAt is the number of processes for which polling is compared with the queue.
const polledAt = 128

// PollingTable compares what an acquisition costs the servers: the fairest polling recipe over fairlock, with 128 processes. It is
// empty if either was not run.
func PollingTable(rows []run.Row) string {
	best := fairest(recipesOf(rows), polledAt)
	own := find(slices.DeleteFunc(slices.Clone(rows), func(r run.Row) bool { return r.Kind != "fairlock" }), polledAt)
	if best == nil || own == nil {
		return ""
	}
	const atLeast = 20
	line := func(what string, theirs, ours float64) []string {
		ratio, met := stats.Ratio(theirs, ours), "no"
		if ratio >= atLeast {
			met = "yes"
		}
		return []string{what, num(theirs), num(ours), num(ratio), fmt.Sprintf(">= %d", atLeast), met}
	}
	return fmt.Sprintf("With %d processes, held for no time. The recipe is %s: of all that were run the one with the highest index of Jain (%.2f; fairlock has %.2f), "+
		"and of those with the same the one that hands over to another process most often (%s times a second; fairlock %s).\n\n",
		polledAt, best.Kind, best.Jain, own.Jain, num(reaching(*best)), num(reaching(*own))) +
		table([]string{"each acquisition", best.Kind, "fairlock", "ratio", "target", "met"}, [][]string{
			line("commands that clients send", best.Commands, own.Commands),
			line("operations that the primary counts", best.ServerOps, own.ServerOps),
		})
}

// known are the sizes of KnowTables.
var known = []int{8, 32, 128}

// KnowTables are what a reader wants to know of kinds, in their order: a table for each size, of the runs with a hold of 0. A kind without
// a run has the reason in its row, if why knows one, and else no row.
func KnowTables(kinds []string, rows []run.Row, why func(kind string, n int) string) string {
	head := []string{"lock", "acq/s", "to another p50 / p99 ms", "longest wait / p50", "Jain (best possible)", "overtaken per grant",
		"commands of clients", "server operations", "server CPU ms"}
	var b strings.Builder
	for _, n := range known {
		var lines [][]string
		for _, kind := range kinds {
			of := find(slices.DeleteFunc(slices.Clone(rows), func(r run.Row) bool { return r.Kind != kind }), n)
			if of != nil {
				lines = append(lines, knowLine(*of))
			} else if reason := why(kind, n); reason != "" {
				lines = append(lines, append([]string{kind, "not run: " + reason}, make([]string, len(head)-2)...))
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "%s%d processes; the last three columns are of each acquisition:\n\n%s", separator(b.Len()), n, table(head, lines))
		}
	}
	return b.String()
}

func separator(written int) string {
	if written == 0 {
		return ""
	}
	return "\n"
}

func knowLine(r run.Row) []string {
	hand := "-"
	if r.ToAnother.N > 0 {
		hand = num(r.ToAnother.P50) + " / " + num(r.ToAnother.P99)
	}
	return []string{r.Kind, num(r.PerSecond), hand, num(r.LongestWait()), fmt.Sprintf("%.3f (%.3f)", r.Jain, r.JainBest),
		num(perGrant(r.Overtaken, r.Grants)), counted(r.Commands), counted(r.ServerOps), num(r.ServerCPU)}
}

// counted writes a figure of which 0 says that nobody counts it.
func counted(x float64) string {
	if x == 0 {
		return "-"
	}
	return num(x)
}

// evenly is the least index of Jain of a recipe that is plotted: one that leaves the lock to whoever had it last is fast and no lock to wait
// for.
const evenly = 0.9

// Plotted chooses the kinds of the plots, eight at most: fairlock, one of each sort, and of the recipes the fastest that is fair.
func Plotted(rows []run.Row) (kinds []string) {
	has := func(kind string) bool {
		return slices.ContainsFunc(rows, func(r run.Row) bool { return r.Kind == kind })
	}
	for _, alternatives := range [][]string{
		{"fairlock"}, {"etcd-mutex"}, {plottedRecipe(rows)}, {"redsync"}, {"rueidislock"}, {"bsm-redislock"}, {"pg-advisory"},
		{"redisson-fair", "curator-mutex"},
	} {
		if i := slices.IndexFunc(alternatives, has); i >= 0 {
			kinds = append(kinds, alternatives[i])
		}
	}
	return kinds
}

// plottedRecipe is the recipe with the most acquisitions among those that share evenly, at the largest size at which one does; else the
// fairest at the largest size; "" if none was run.
func plottedRecipe(rows []run.Row) string {
	rows = slices.DeleteFunc(recipesOf(rows), func(r run.Row) bool { return r.HoldMS != 0 || r.Grants == 0 })
	var best *run.Row
	largest := 0
	for i, r := range rows {
		largest = max(largest, r.N)
		if r.Jain >= evenly && (best == nil || r.N > best.N || r.N == best.N && r.PerSecond > best.PerSecond) {
			best = &rows[i]
		}
	}
	if best == nil {
		best = fairest(rows, largest)
	}
	if best == nil {
		return ""
	}
	return best.Kind
}
