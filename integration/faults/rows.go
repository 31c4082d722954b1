package faults

import (
	"time"
)

// Rows are all rows that need nothing but signals and commands, in an order in which rows with equal servers follow one another.
// Package lab has those that need a network, a disk or a clock of their own.
func Rows() []Row {
	return []Row{
		none(), pool1(), oneThread(),
		killHolder(), killWaiter(), pauseHolder(), pauseShort(), cutClient(), killCursor(),
		dropped("locks"), dropped("tickets"), dropped("sessions"), renamed(), dropDatabase(), malformed(),
		primitive(Semaphores), primitive(ReadWrite), primitive(Sets), primitive(Elections), forced(), permitted(),
		stepDown(), killPrimary(), pausePrimary(), freezeSecondaries(), slowSecondaries(),
		historyLost(), neighbour(), roleRevoked(),
	}
}

// shortTTL is the lease where a run has to wait for one to end.
const shortTTL = 3 * time.Second

// afterDeath is how long after the end of a lease the next in line is served: a look of a waiter, and a few writes.
const afterDeath = 5 * time.Second

func none() Row {
	return Row{
		Name:   "none",
		About:  "nothing is done: 8 processes with 64 callers on 64 locks",
		Crew:   CrewOptions{Locks: 64},
		Expect: NoLosses,
	}
}

// pool1 leaves fairlock one connection, which its stream must not keep for itself.
func pool1() Row {
	return Row{
		Name:  "pool-1",
		About: "fairlock's client has a pool of one connection",
		Gate:  10, WhyGate: "all calls of a process go over one connection, and until it is noticed that there is no other the stream takes it for 5 s at a time",
		Crew:  CrewOptions{Procs: 4, Callers: 16, Locks: 8, Params: "maxPoolSize=1"},
		Short: 25 * time.Second,
	}
}

// oneThread runs the processes on one thread each.
func oneThread() Row {
	return Row{
		Name:   "gomaxprocs-1",
		About:  "the processes run with GOMAXPROCS=1",
		Crew:   CrewOptions{Procs: 4, Callers: 16, Locks: 8, Env: []string{"GOMAXPROCS=1"}},
		Expect: NoLosses,
	}
}

// usual is the crew of most rows: 64 callers in 4 processes. More processes would spend the two cores on their streams and
// connections. Tickets are late enough that most calls need none, and early enough that holders who are to be killed have one.
func usual(ttl time.Duration) CrewOptions {
	return CrewOptions{Procs: 4, Callers: 16, Locks: 8, TTL: ttl, TicketDelay: 200 * time.Millisecond}
}
