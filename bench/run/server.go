package run

import (
	"context"
	"os/exec"
)

// Server is what contenders lock on: one server or a set of them, started by the harness and ended with it.
type Server interface {
	// Name is what contend.Kind.Server says: "mongo", "redis", "etcd", "postgres" or "zookeeper".
	Name() string
	// Target is what contenders are given as -target.
	Target() string
	// PIDs are the processes whose CPU is the server's.
	PIDs() []int
	// Ops are counters of operations that only grow, by name; "total" is their sum.
	Ops(ctx context.Context) (map[string]int64, error)
	// Stop ends all processes and removes their data. It may be repeated.
	Stop(ctx context.Context) error
}

// Floorer is a Server that has a floor: the cheapest durable write, which no lock on it can do without.
type Floorer interface {
	// Floor opens a client of its own. op is one such write; end closes the client.
	Floor(ctx context.Context) (op func(context.Context) error, end func(), err error)
}

// Contestant is one way to lock, as the harness starts it.
type Contestant struct {
	Kind   string
	Server string // as Server.Name
	// Command makes the process of one contender from its arguments (see package contend). Nil: this binary again, with
	// contend.Subcommand before the arguments. The process must be the contender itself and no shell around it, since its CPU is read
	// by its id.
	Command func(args []string) *exec.Cmd
	// Marks says that Command's process is contend.Main of another binary, which understands "mark".
	Marks bool
}
