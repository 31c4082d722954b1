package simulate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/queue"
)

// Plan is one schedule: everything that is decided before it begins. What is left to be decided on the way (how long each call
// takes, which replies a bad network loses) follows from the seed, the process and how often it has made that call, and from
// nothing else, so that it does not depend on the order in which goroutines happen to run.
type Plan struct {
	Seed   int64
	Procs  []ProcPlan
	Locks  []LockPlan
	Jobs   []Job
	Faults []Fault
	Window time.Duration // in which calls are made and faults happen
	// Deleted says what somebody with his hands in the database deletes, if anything.
	Deleted Deletion
}

// ProcPlan is a process, and whoever starts in its place.
type ProcPlan struct {
	TTL, Margin, TicketDelay, OpTimeout time.Duration
	LockDelay                           time.Duration
	Poll                                bool
	Begins                              time.Duration
}

// LockPlan is a lock.
type LockPlan struct {
	Name  string
	Shape queue.Shape
}

// Job is one call that takes a lock, or several, and what is done with it. Times of zero are none.
type Job struct {
	Slot, Lock int
	All        []int // locks for LockAll, in any order; nil: Lock alone
	At         time.Duration
	Units      int64
	Part       int64 // of a semaphore: how many units are given back at each look, while there are more; 0: all at the end
	Try        bool
	Cancel     time.Duration // after which the caller gives up
	MaxWait    time.Duration
	MaxHold    time.Duration
	Hold       time.Duration
	Step       time.Duration // between two looks at the lock
	Hasty      bool          // gives the lock back with a context that ends at once
	Careless   bool          // never gives back a lock that was lost
	Polite     bool          // gives it back when somebody asks for it
}

// FaultKind is what goes wrong.
type FaultKind string

// The kinds. A window is from From to To; the others happen at From.
const (
	Crash    FaultKind = "crash"    // at the first call of Op after From, at Point; another process starts after For, if that is above 0
	Closing  FaultKind = "closing"  // Close is called at From; another starts after For
	Cut      FaultKind = "cut"      // no call is answered in the window
	Failover FaultKind = "failover" // Cut for everybody, streams end, and writes are slow for For after it
	Lossy    FaultKind = "lossy"    // each call fails with probability P, in one of the ways that there are
	Slow     FaultKind = "slow"     // writes take up to 2 s in the window
	Stale    FaultKind = "stale"    // reads show the state of From in the window
	Stopped  FaultKind = "stopped"  // the process does nothing in the window (SIGSTOP, suspension), its clock goes on
	Jump     FaultKind = "jump"     // the process's clock leaps ahead by For
	Wall     FaultKind = "wall"     // the server's wall clock is off by For in the window
	Ended    FaultKind = "ended"    // its streams end with an error
	Mute     FaultKind = "mute"     // its streams deliver nothing in the window
	Repeat   FaultKind = "repeat"   // and each event up to three times, or not at all
	Delete   FaultKind = "delete"   // a document is deleted: see Plan.Deleted
)

// String shows a plan line by line.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, window %v, deleted %q\n", p.Seed, p.Window, p.Deleted)
	for i, x := range p.Procs {
		fmt.Fprintf(&b, "slot %d: %+v\n", i, x)
	}
	for i, x := range p.Locks {
		fmt.Fprintf(&b, "lock %d: %+v\n", i, x)
	}
	for i, x := range p.Jobs {
		fmt.Fprintf(&b, "job %d: %+v\n", i, x)
	}
	for i, x := range p.Faults {
		fmt.Fprintf(&b, "fault %d: %+v\n", i, x)
	}
	return b.String()
}

// Everybody is the slot of faults that hit all processes.
const Everybody = -1

// Fault is one thing that goes wrong.
type Fault struct {
	Kind     FaultKind
	Slot     int
	From, To time.Duration
	For      time.Duration
	P        float64 // from 2 on: always
	Op       memstore.Op
	Point    memstore.Point
	Lock     int   // of an operator's call
	N        int64 // permits
}

func (f *Fault) hits(slot int, at time.Duration) bool {
	return (f.Slot == slot || f.Slot == Everybody) && f.From <= at && at < f.To
}

// Deletion is what is deleted by hand in a schedule.
type Deletion string

// The deletions.
const (
	Nothing        Deletion = ""
	LockDocument   Deletion = "lock"
	TicketDocument Deletion = "ticket"
	SessionDoc     Deletion = "session"
	LockCollection Deletion = "locks"
)

// writes are the calls at which a process can be made to die: all that change something. Those that matter most are there more than
// once.
var writes = []memstore.Op{
	memstore.OpEnqueue, memstore.OpEnqueue, memstore.OpEnqueue, memstore.OpTry, memstore.OpSettle, memstore.OpSettle,
	memstore.OpPutTicket, memstore.OpPutTicket, memstore.OpDropTickets, memstore.OpBury, memstore.OpBuryRead,
	memstore.OpBeginSession, memstore.OpRenew, memstore.OpEndSession, memstore.OpBurySession,
	memstore.OpMarkCleared, memstore.OpRemove, memstore.OpAny,
}

func isWrite(op memstore.Op) bool {
	switch op {
	case memstore.OpEnqueue, memstore.OpTry, memstore.OpSettle, memstore.OpPutTicket, memstore.OpMarkPassed, memstore.OpDropTickets,
		memstore.OpBury, memstore.OpBeginSession, memstore.OpRenew, memstore.OpEndSession, memstore.OpBurySession,
		memstore.OpMarkCleared, memstore.OpRemove, memstore.OpSetPermits, memstore.OpRequest, memstore.OpForce, memstore.OpTell:
		return true
	}
	return false
}

// planner draws a plan.
type planner struct {
	*rand.Rand
	p Plan
}

// between is a time from a to b, to the nanosecond, so that no two things fall on one instant.
func (r *planner) between(a, b time.Duration) time.Duration {
	return a + time.Duration(r.Int64N(int64(b-a)+1))
}

func (r *planner) chance(p float64) bool { return r.Float64() < p }

func pick[T any](r *planner, from ...T) T { return from[r.IntN(len(from))] }

// NewPlan makes the schedule of a seed: that of its users, and operators.
func NewPlan(seed int64) Plan {
	p := UsersPlan(seed)
	p.operators()
	return p
}

// UsersPlan is the schedule of a seed as it was when there were no operators: the plain plan, and more.
func UsersPlan(seed int64) Plan {
	p := PlainPlan(seed)
	p.more()
	return p
}

// PlainPlan is the schedule of a seed as it was when there were only mutexes and small pools, for seeds that found something then.
func PlainPlan(seed int64) Plan {
	r := &planner{rand.New(rand.NewPCG(uint64(seed), 0x66616972)), Plan{Seed: seed}}
	r.p.Window = r.between(2*time.Second, 6*time.Second)
	r.procs()
	r.locks()
	r.jobs()
	r.faults()
	return r.p
}

func (r *planner) procs() {
	same := r.chance(0.5) // mostly all are configured alike
	base := r.proc()
	for range 2 + r.IntN(4) {
		p := base
		if !same {
			p = r.proc()
		}
		p.Begins = r.between(0, 50*time.Millisecond)
		r.p.Procs = append(r.p.Procs, p)
	}
}

func (r *planner) proc() ProcPlan {
	ttl := pick(r, time.Second, time.Second, 1500*time.Millisecond, 2*time.Second, 3*time.Second)
	return ProcPlan{
		TTL:    ttl,
		Margin: pick(r, ttl/10, ttl/10, ttl/4, ttl/2, 20*time.Millisecond),
		TicketDelay: min(pick(r, time.Millisecond, 20*time.Millisecond, 100*time.Millisecond, 250*time.Millisecond, time.Second),
			ttl/4),
		OpTimeout: pick(r, 2500*time.Millisecond, 2500*time.Millisecond, 5*time.Second),
		Poll:      r.chance(0.1),
	}
}

func (r *planner) locks() {
	for i := range 1 + r.IntN(3) {
		shape := queue.Mutex
		if r.chance(0.35) {
			shape = queue.Shape{Kind: queue.KindSemaphore, Permits: int64(2 + r.IntN(3))}
		}
		r.p.Locks = append(r.p.Locks, LockPlan{Name: string(rune('a' + i)), Shape: shape})
	}
}

func (r *planner) jobs() {
	n := 8 + r.IntN(22)
	bursts := []time.Duration{0}
	for range r.IntN(4) {
		bursts = append(bursts, r.between(0, r.p.Window*3/4))
	}
	favourite := r.IntN(len(r.p.Locks))
	long := pick(r, 0.1, 0.1, 0.4) // how many hold for longer than a lease lasts unrenewed
	for range n {
		lock := favourite
		if r.chance(0.3) {
			lock = r.IntN(len(r.p.Locks))
		}
		j := Job{
			Slot: r.IntN(len(r.p.Procs)), Lock: lock, Units: 1 + r.Int64N(r.p.Locks[lock].Shape.Permits),
			At: pick(r, bursts...) + r.between(60*time.Millisecond, 400*time.Millisecond), Try: r.chance(0.15),
			Hold: r.between(0, pick(r, 5*time.Millisecond, 50*time.Millisecond, 300*time.Millisecond)),
			Step: r.between(20*time.Millisecond, 400*time.Millisecond),
		}
		r.vary(&j, long)
		r.p.Jobs = append(r.p.Jobs, j)
	}
}

// faults draws a few kinds, and of each a few. One schedule in twelve has none.
func (r *planner) faults() {
	if r.chance(1.0 / 12) {
		return
	}
	kinds := []FaultKind{
		Crash, Crash, Crash, Closing, Cut, Cut, Failover, Lossy, Lossy, Lossy, Slow, Stale, Stale, Stopped, Stopped, Jump, Wall, Ended, Mute, Repeat,
	}
	if r.chance(0.1) {
		r.p.Deleted = pick(r, LockDocument, TicketDocument, SessionDoc, SessionDoc, LockCollection)
		for range 1 + r.IntN(3) {
			r.p.Faults = append(r.p.Faults, Fault{Kind: Delete, Slot: Everybody, From: r.between(200*time.Millisecond, r.p.Window)})
		}
	}
	for range 1 + r.IntN(4) {
		kind := pick(r, kinds...)
		if kind == Wall && (r.p.Deleted == LockDocument || r.p.Deleted == LockCollection) {
			kind = Ended // see the package comment
		}
		for range 1 + r.IntN(3) {
			f := r.fault(kind)
			r.p.Faults = append(r.p.Faults, f)
			if kind == Cut && r.chance(0.4) {
				// What was still answered before was answered late.
				r.p.Faults = append(r.p.Faults, Fault{Kind: Slow, Slot: f.Slot, From: f.From - 1500*time.Millisecond, To: f.From})
			}
		}
	}
	r.boundJumps()
}

func (r *planner) fault(kind FaultKind) Fault {
	f := Fault{Kind: kind, Slot: r.IntN(len(r.p.Procs)), From: r.between(50*time.Millisecond, r.p.Window*3/4)}
	f.To = min(f.From+r.between(10*time.Millisecond, pick(r, 200*time.Millisecond, 2*time.Second, 6*time.Second)), r.p.Window)
	again := func() {
		if r.chance(0.7) {
			f.For = r.between(time.Millisecond, time.Second)
		}
	}
	switch kind {
	case Crash:
		f.Op, f.Point = pick(r, writes...), pick(r, memstore.Before, memstore.After)
		again()
	case Closing:
		again()
	case Failover:
		f.Slot = Everybody
		f.For = r.between(0, 3*time.Second)
	case Lossy:
		f.P = pick(r, 0.02, 0.1, 0.3, 0.7)
		if r.chance(0.3) {
			f.Slot = Everybody
		}
		f.Op = memstore.OpAny
		if r.chance(0.4) {
			// One kind of write fails for a while, or all the time, and the others do not.
			f.Op, f.P = pick(r, writes...), pick(r, 0.3, 0.7, 2, 2)
		}
	case Stale:
		f.To = min(f.From+r.between(10*time.Millisecond, 6*time.Second), r.p.Window)
		if r.chance(0.3) {
			f.Slot = Everybody
		}
	case Slow, Mute:
		if r.chance(0.3) {
			f.Slot = Everybody
		}
	case Jump:
		f.For = r.between(0, time.Second) // see boundJumps
	case Wall:
		f.Slot = Everybody
		f.For = pick(r, -1, time.Duration(1)) * r.between(0, pick(r, time.Second, time.Minute, 24*time.Hour))
	}
	return f
}

// boundJumps keeps what a clock gains below the least margin. The protocol's clocks count true time, and the margin
// is what it allows them to be wrong by: a reaper takes a number without a ticket for an orphan by its own clock alone.
func (r *planner) boundJumps() {
	room := map[int]time.Duration{}
	for i := range r.p.Procs {
		room[i] = 24 * time.Hour
		for _, p := range r.p.Procs {
			room[i] = min(room[i], p.Margin*9/10)
		}
	}
	for i := range r.p.Faults {
		if f := &r.p.Faults[i]; f.Kind == Jump {
			f.For = min(f.For, room[f.Slot])
			room[f.Slot] -= f.For
		}
	}
}

// vary draws what makes a job unlike others: a long hold with probability long, another time, how its call may end.
func (r *planner) vary(j *Job, long float64) {
	if r.chance(long) {
		j.Hold = r.between(300*time.Millisecond, 4*time.Second)
	}
	if r.chance(0.3) {
		j.At = r.between(60*time.Millisecond, r.p.Window)
	}
	if r.chance(0.15) {
		j.Cancel = r.between(time.Microsecond, 2*time.Second)
	}
	if r.chance(0.1) {
		j.MaxWait = r.between(time.Millisecond, 2*time.Second)
	}
	if r.chance(0.1) {
		j.MaxHold = r.between(time.Millisecond, time.Second)
	}
	j.Hasty, j.Careless = r.chance(0.1), r.chance(0.3)
}
