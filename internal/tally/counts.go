package tally

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
