package faults

import (
	"context"
	"os/exec"
	"time"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/history"
	"github.com/fairlock/fairlock/internal/replset"
)

// Instant is a stamp of the clock that all processes of the machine share.
type Instant = clock.Instant

// Row is one kind of fault. Rows are values: a run changes nothing in them.
type Row struct {
	// Name is a word or two with dashes. It names the test, the files, and the seed's stream of random numbers.
	Name string
	// About says in one sentence what is done, for the table.
	About string

	// Gate is how many grants a second the crew must make in the two seconds before the first fault; below that the run is void.
	// Defaults to 100. A lower gate needs WhyGate.
	Gate    float64
	WhyGate string
	// Warm is how long the crew may take to come to that rate. Defaults to 20 s.
	Warm time.Duration

	// Set are the servers. Rows with equal servers share them, one run after the other, unless Fresh.
	Set replset.Options
	// Fresh starts servers for each run, because the fault spoils them.
	Fresh bool
	// Deploy starts servers in place of Set, for rows that need them elsewhere than on loopback. They end with the run.
	Deploy func(ctx context.Context, dir string) (Deployment, error)

	// Crew is who works on them.
	Crew CrewOptions

	// Before, if not nil, gets ready what the crew needs, before it is hired.
	Before func(ctx context.Context, r *Run) error

	// Fault does the harm and heals it. It begins when the gate is met, says what recovery is to be measured from ([Run.Mark]), and
	// has about [Run.Length] for all. It must return soon after ctx has ended. An error means that the harness failed
	// to do harm, and the run is not counted.
	Fault func(ctx context.Context, r *Run) error

	// Expect judges what only this row promises. It returns sentences, one for each promise that was broken.
	Expect func(r *Run) []string

	// Bound is the longest recovery. Bounds in Run.Mark go before it.
	Bound time.Duration

	// Omit are the rules of the check that do not hold in this row, each with why.
	Omit map[history.Rule]string
	// Revoked: see history.Options.
	Revoked bool

	// Leaves is why something may be left to sweep although no process was killed.
	Leaves string
	// Strays is why cursors may be left open that no failed stream accounts for. A row with a Deploy may leave some in any case.
	Strays string

	// Short is the length of a run in the short pass. Defaults to 8 s.
	Short time.Duration
}

const (
	defaultGate  = 100
	defaultShort = 8 * time.Second
	defaultWarm  = 20 * time.Second
)

func (r Row) warm() time.Duration {
	if r.Warm == 0 {
		return defaultWarm
	}
	return r.Warm
}

func (r Row) gate() float64 {
	if r.Gate == 0 {
		return defaultGate
	}
	return r.Gate
}

// ShortLength is the length of a run in the short pass.
func (r Row) ShortLength() time.Duration {
	if r.Short == 0 {
		return defaultShort
	}
	return r.Short
}

// Deployment is servers.
type Deployment interface {
	// URI is for whoever observes, and for the crew unless CrewOptions.URI says something else.
	URI() string
	// WaitHealthy returns when all servers are up and agree.
	WaitHealthy(ctx context.Context) error
	// Stop ends all servers. It may be repeated.
	Stop(ctx context.Context) error
}

// CrewOptions say who works. The zero value is 8 processes with 8 callers each on 16 locks, with fairlock's defaults.
type CrewOptions struct {
	Procs   int // defaults to 8
	Callers int // of each process; defaults to 8
	Locks   int // named l0, l1, ...; defaults to 16

	// Workload is what the callers take. Defaults to mutexes.
	Workload Workload

	// TTL, TicketDelay, OpTimeout are of fairlock.Config.
	TTL, TicketDelay, OpTimeout time.Duration

	// Try and Cancel are how many in a hundred calls are TryLock, and are cancelled after a random short while. They default to 10 and
	// 5; below zero is none. LockAll and Campaign have no such call, and wait.
	Try, Cancel int
	// Hold is how long a critical section lasts beyond its write to the register. Defaults to 0.
	Hold time.Duration
	// Think is the longest random pause of a caller between two calls. Defaults to 0.
	Think time.Duration

	// Params are added to the URI of fairlock's client, such as "maxPoolSize=1".
	Params string
	// Env is added to the environment of the processes.
	Env []string
	// URI, if not nil, is the address of the servers for one process, in place of the deployment's. It is for fairlock's client and
	// for the register's.
	URI func(r *Run, proc int) string
	// RegisterURI, if not nil, is that of the register's client alone.
	RegisterURI func(r *Run, proc int) string
	// Wrap, if not nil, changes the command by which a process is started, such as to run it in a network namespace. The command
	// must end up being the process itself (exec), since signals go to it.
	Wrap func(r *Run, proc int, cmd *exec.Cmd)
}

func (o CrewOptions) withDefaults() CrewOptions {
	def := func(n *int, v int) {
		switch {
		case *n == 0:
			*n = v
		case *n < 0:
			*n = 0
		}
	}
	def(&o.Procs, 8)
	def(&o.Callers, 8)
	def(&o.Locks, 16)
	def(&o.Try, 10)
	def(&o.Cancel, 5)
	return o
}

// Mark is a moment from which recovery is measured: to the first grant after it that proves recovery.
type Mark struct {
	// What the fault was, in a word or two.
	What string
	// Lock is whose next grant counts; "" is any lock.
	Lock string
	// From is when the time begins. In is when the fault was in effect for sure: grants before it prove nothing. The zero values are now.
	From, In Instant
	// Fresh is what a grant needs to prove recovery.
	Fresh Fresh
	// Bound is the longest recovery; 0 is the row's.
	Bound time.Duration
}

// Fresh is what a grant needs to prove recovery.
type Fresh int

const (
	// AnyGrant: the grant came after the fault was in effect. For faults of one client.
	AnyGrant Fresh = iota
	// Acked: its number was acknowledged after the fault was in effect.
	Acked
	// Sent: its number was asked for after the fault was in effect. For faults of servers: inside a process, a lock is passed on
	// without them.
	Sent
)
