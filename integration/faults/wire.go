package faults

import (
	"time"

	"github.com/fairlock/fairlock"
)

// workerEnv makes a binary a process of the crew; its value is a workerConfig.
const workerEnv = "FAIRLOCK_FAULTS_WORKER"

// workerConfig is what a process of the crew is told at its start.
type workerConfig struct {
	Proc                        int
	URI, RegisterURI            string
	DB, RegisterDB              string
	TTL, TicketDelay, OpTimeout time.Duration
	Callers, Try, Cancel        int
	Hold, Think                 time.Duration
	Workload                    Workload
	Locks                       []string
	Seed                        uint64
	Dir                         string // where the history goes
}

// order is a line that a process of the crew is sent.
type order struct {
	Op    string // begin, hold, want, resume, die, stop, close, stats
	Lock  string // of hold, want, resume
	Point Point  // of die
}

// report is a line that a process of the crew writes.
type report struct {
	Op    string // ready, held, told, resumed, dying, broken, stopped, stats, closed
	At    Instant
	Lock  string
	Token int64
	Err   string
	Stats fairlock.Stats // of stats, stopped and closed
}

// Point is a step of a call at which a process can be made to kill itself.
type Point string

// The points, in the order in which a call comes by them.
const (
	// AfterNumber: the server has answered with a number, and nobody in the process knows it yet.
	AfterNumber Point = "after number"
	// AfterTicket: the ticket has been acknowledged, and nobody in the process knows it yet.
	AfterTicket Point = "after ticket"
	// Waiting: a call has waited for longer than its ticket takes.
	Waiting Point = "waiting"
	// JustGranted: Lock has returned.
	JustGranted Point = "just granted"
	// BeforeSettle: the write that gives a number back is about to be sent.
	BeforeSettle Point = "before settle"
	// AfterSettle: it has been acknowledged, and nobody in the process knows it yet.
	AfterSettle Point = "after settle"
)

// Points are all.
var Points = []Point{AfterNumber, AfterTicket, Waiting, JustGranted, BeforeSettle, AfterSettle}
