package tally

import (
	"errors"

	"github.com/fairlock/fairlock"
)

// Count is one metric that is read from a Sum, with a series for each value of its label.
type Count struct {
	Name  string // in parts with dots between, without fairlock and without a suffix
	Help  string
	Unit  string // of what it counts
	Gauge bool   // it can go down
	Label string // "": there is one series, whose value is ""
	Of    map[string]func(*Sum) int64
}

// Counts are all metrics that are read from managers' own statistics, so that nothing is counted twice, and all adapters have the same.
func Counts() []Count {
	return []Count{
		{"held", "Locks that this process has.", "lock", true, "", one(func(s *Sum) int64 { return s.Held })},
		{"waiting", "Calls of this process that wait for a lock.", "call", true, "", one(func(s *Sum) int64 { return s.Waiting })},
		{"managers", "Managers that are not closed.", "manager", true, "", one(func(s *Sum) int64 { return s.Managers })},
		{"streams", "Change streams that are open.", "stream", true, "", one(func(s *Sum) int64 { return s.Streams })},
		{"grants", "Locks granted, by what told that they were.", "lock", false, "by", map[string]func(*Sum) int64{
			"arrival": func(s *Sum) int64 { return s.ByArrival },
			"event":   func(s *Sum) int64 { return s.GrantsByEvent },
			"opening": func(s *Sum) int64 { return s.GrantsByOpening },
			"doze":    func(s *Sum) int64 { return s.GrantsByDoze },
			"recheck": func(s *Sum) int64 { return s.GrantsByRecheck },
			"poll":    func(s *Sum) int64 { return s.GrantsByPoll },
		}},
		{"poll.wakeups", "Grants that the change stream failed to tell of, and the slow re-check found.", "lock", false, "",
			one(func(s *Sum) int64 { return s.GrantsByRecheck })},
		{"requeued", "Waiters that had to queue again at the end.", "call", false, "", one(func(s *Sum) int64 { return s.Requeued })},
		{"overslept", "Grants that came late because a waiter took the queue for slower than it was.", "lock", false, "",
			one(func(s *Sum) int64 { return s.Overslept })},
		{"reaped", "What dead processes left and this one cleared.", "item", false, "kind", map[string]func(*Sum) int64{
			"session": func(s *Sum) int64 { return s.SessionsEnded },
			"ticket":  func(s *Sum) int64 { return s.TicketsCleared },
			"number":  func(s *Sum) int64 { return s.OrphansBuried },
		}},
		{"writes", "Writes to the database, without the lease's.", "call", false, "kind", map[string]func(*Sum) int64{
			"enqueue": func(s *Sum) int64 { return s.Enqueues },
			"settle":  func(s *Sum) int64 { return s.Settles },
			"ticket":  func(s *Sum) int64 { return s.TicketsWritten },
			"drop":    func(s *Sum) int64 { return s.TicketsDeleted },
		}},
		{"reads", "Reads of lock documents for those who wait.", "call", false, "", one(func(s *Sum) int64 { return s.Reads })},
		{"looks", "Looks at those ahead in line.", "look", false, "", one(func(s *Sum) int64 { return s.Looks })},
		{"sweeps", "Sweeps for what dead processes left.", "sweep", false, "", one(func(s *Sum) int64 { return s.Sweeps })},
		{"stream.opens", "Change streams opened.", "stream", false, "", one(func(s *Sum) int64 { return s.StreamsOpened })},
		{"stream.events", "Change events received.", "event", false, "", one(func(s *Sum) int64 { return s.Events })},
		{"passed.over", "Documents in fairlock's collections that are none of its own, at each read.", "document", false, "",
			one(func(s *Sum) int64 { return s.PassedOver })},
		{"unobserved", "Events that metrics and traces were too slow for.", "event", false, "", one(func(s *Sum) int64 { return s.Unobserved })},
	}
}

func one(of func(*Sum) int64) map[string]func(*Sum) int64 { return map[string]func(*Sum) int64{"": of} }

// The bounds of histograms, in seconds: Long for what people do with locks, Short for single writes.
var (
	Long  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 180, 600}
	Short = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
)

// The words for how a renewal and a change stream ended.
const (
	OK    = "ok"
	Error = "error"
)

// StreamReasons are all that [fairlock.StreamFailed] can have as its reason.
func StreamReasons() []string { return []string{"privilege", "pool", "timeout", "error"} }

// Kinds are all that [fairlock.Acquiring] can have as its kind.
func Kinds() []string { return []string{"mutex", "semaphore", "read", "write"} }

// Outcome is the word for whether a renewal succeeded.
func Outcome(err error) string {
	if err != nil {
		return Error
	}
	return OK
}

// Ending says which metric the end of a hold is one of: of locks that were lost, or of the time that Unlock took. What LockAll undid is of neither.
func Ending(e fairlock.Ended) (lost, handed bool) {
	lost = errors.Is(e.Err, fairlock.ErrLost)
	return lost, !lost && !e.Undone
}

// Event is one metric of what an observer is told. It has the label lock too where Named and the user wants it.
type Event struct {
	Name   string // as in Count
	Help   string
	Unit   string    // of what it counts; s of a histogram
	Bounds []float64 // nil: a counter
	Labels []string
	Named  bool
}

// The metrics of what an observer is told.
var (
	Acquire    = Event{"acquire", "Calls that took a lock or failed to, by what became of them.", "call", nil, []string{"kind", "outcome"}, true}
	Wait       = Event{"wait", "How long those who got a lock had waited for it.", "s", Long, []string{"kind"}, true}
	Hold       = Event{"hold", "How long locks were held, to their release or loss.", "s", Long, []string{"kind"}, true}
	Release    = Event{"release", "How long it took to give locks back, with the write that admits the next in line.", "s", Short, []string{"kind"}, false}
	Lost       = Event{"lost", "Locks that were lost before they were unlocked, by reason.", "lock", nil, []string{"reason"}, true}
	Renew      = Event{"renew", "Attempts to renew the lease.", "attempt", nil, []string{"outcome"}, false}
	Renewal    = Event{"renew", "How long attempts to renew the lease took.", "s", Short, nil, false}
	Reopens    = Event{"stream.reopens", "Change streams that failed, or could not be opened, by reason.", "stream", nil, []string{"reason"}, false}
	StreamOpen = Event{"stream.open", "How long it took to open a change stream.", "s", Short, nil, false}
)
