package gateway

// state is where a lease is; see doc.go.
type state uint8

const (
	_ state = iota
	waiting
	held
	releasing
	released
	lost
	left
)

var stateNames = [...]string{waiting: "waiting", held: "held", releasing: "releasing", released: "released", lost: "lost", left: "left"}

func (s state) String() string { return stateNames[s] }

// moves are all transitions there are.
var moves = map[state][]state{
	waiting:   {held, left},
	held:      {releasing, lost},
	releasing: {released, lost},
}

// final reports whether a lease stays in the state.
func (s state) final() bool { return len(moves[s]) == 0 }

// reason says why a lease is over. It is part of the protocol.
type reason string

const (
	// Of a place that was left.
	withdrawn  reason = "withdrawn"        // DELETE
	isBusy     reason = "busy"             // try, and the lock was not free
	waitLimit  reason = "wait-limit"       // maxWaitMs has passed
	notHeard   reason = "no-heartbeat"     // also of a hold
	isClosing  reason = "closing"          // also of a hold
	mismatched reason = "mismatch"         // the lock has another kind or other permits
	tooMany    reason = "too-many-waiters" // MaxWaiters
	refused    reason = "refused"          // a value breaks a rule that only the lock knows
	database   reason = "database"         // the database refuses for good
	unsure     reason = "unconfirmed"      // of a release: given back as soon as the database takes it

	// Of a hold that was lost, beside notHeard and isClosing: fairlock.LossReason.
	lostLease   reason = "lease"
	lostSession reason = "session"
	lostTicket  reason = "ticket"
	lostSettled reason = "settled"
	lostMaxHold reason = "max-hold"
	lostForced  reason = "forced" // by an operator
)
