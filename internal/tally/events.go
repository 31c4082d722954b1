package tally

import "github.com/fairlock/fairlock"

// The bounds of histograms, in seconds: long for what people do with locks, short for single writes.
var (
	long  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 180, 600}
	short = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
)

// The words for how a renewal ended; failed is also the outcome of calls that alerts are about.
const (
	renewed = "ok"
	failed  = "error"
)

// Kinds are all that [fairlock.Acquiring] can have as its kind.
func Kinds() []string { return []string{"mutex", "semaphore", "read", "write"} }

// Event is one metric of what an observer is told.
type Event struct {
	Name   string // as in Count
	Help   string
	Unit   string    // of what it counts; s of a histogram
	Bounds []float64 // nil: a counter
	Labels []string  // with the one for the lock's name last, where the metric has it

	named bool       // it has that label where the user wants it
	first [][]string // the labels' values in the series that there are from the beginning, so that the first event of them is seen as an increase
}

// The metrics of what an observer is told.
var (
	acquire = Event{"acquire", "Calls that took a lock or failed to, by what became of them.", "call", nil, []string{"kind", "outcome"}, true,
		each(Kinds(), failed)}
	wait = Event{"wait", "How long those who got a lock had waited for it.", "s", long, []string{"kind"}, true, nil}
	hold = Event{"hold", "How long locks were held, to their release or loss.", "s", long, []string{"kind"}, true, nil}
	// Nobody waits for what LockAll undoes, so that is not one of these.
	release = Event{"release", "How long it took to give locks back, with the write that admits the next in line.", "s", short, []string{"kind"}, false, nil}
	lost    = Event{"lost", "Locks that were lost before they were unlocked, by reason.", "lock", nil, []string{"reason"}, true,
		each(fairlock.LossReasons())}
	renew   = Event{"renew", "Attempts to renew the lease.", "attempt", nil, []string{"outcome"}, false, each([]string{renewed, failed})}
	renewal = Event{"renew", "How long attempts to renew the lease took.", "s", short, nil, false, [][]string{nil}}
	reopens = Event{"stream.reopens", "Change streams that failed, or could not be opened, by reason.", "stream", nil, []string{"reason"}, false,
		each([]string{"privilege", "pool", "timeout", "error"})}
	opening = Event{"stream.open", "How long it took to open a change stream.", "s", short, nil, false, [][]string{nil}}
)

// each is the values of one label, with the same ones of those after it.
func each(words []string, more ...string) (all [][]string) {
	for _, w := range words {
		all = append(all, append([]string{w}, more...))
	}
	return all
}
