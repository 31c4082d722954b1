package demo

import (
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strconv"
	"time"
)

// Options is what one run does.
type Options struct {
	URI    string // a running deployment; "" starts a replica set of three, which ends with the run
	DB     string
	Prefix string // of all collections; the run's id is added to it

	Workers, Goroutines int
	Input               string // path of a CSV file, "" for the sample
	Invoices            int    // lines to take of it; 0: DefaultInvoices of the sample, all of a file
	Hold, TTL           time.Duration
	Seed                uint64 // chooses the victims
	Kill, StepDown      bool
	Keep                bool

	// Worker makes the command of one worker process; it is started with pipes for stdin and stdout.
	Worker func() *exec.Cmd
	View   View
	Log    *slog.Logger
}

// Defaults of the flags. With them a run takes about half a minute on two cores that carry everything.
const (
	DefaultDB         = "fairlock_demo"
	DefaultWorkers    = 8
	DefaultGoroutines = 4
	DefaultInvoices   = 800
	DefaultTTL        = 3 * time.Second
)

// ErrOption: a value breaks its rule. Errors that match it are of type *OptionError.
var ErrOption = errors.New("demo: invalid option")

// OptionError says which flag, which value, which rule.
type OptionError struct{ Flag, Value, Rule string }

func (e *OptionError) Error() string { return fmt.Sprintf("--%s is %s: %s", e.Flag, e.Value, e.Rule) }

// Is makes errors.Is(err, ErrOption) true.
func (e *OptionError) Is(target error) bool { return target == ErrOption }

const (
	mostWorkers    = 64
	mostGoroutines = 256
)

// Validate checks what can be checked without the input.
func (o *Options) Validate() error {
	bad := func(flag string, value any, rule string) error {
		return &OptionError{flag, fmt.Sprint(value), rule}
	}
	switch {
	case o.Workers < 1 || o.Workers > mostWorkers:
		return bad("workers", o.Workers, "must be from 1 to "+strconv.Itoa(mostWorkers))
	case o.Workers < 2 && o.Kill:
		return bad("workers", o.Workers, "must be at least 2, or use --no-kill: nobody would be left to take over")
	case o.Goroutines < 1 || o.Goroutines > mostGoroutines:
		return bad("goroutines", o.Goroutines, "must be from 1 to "+strconv.Itoa(mostGoroutines))
	case o.Invoices < 0:
		return bad("invoices", o.Invoices, "must be positive")
	case o.Hold < 0 || o.Hold > 10*time.Second:
		return bad("hold", o.Hold, "must be from 0s to 10s")
	case o.TTL < time.Second || o.TTL > time.Minute:
		return bad("ttl", o.TTL, "must be from 1s to 1m")
	case o.DB == "":
		return bad("db", `""`, "must not be empty")
	}
	return nil
}

// fewest is how many invoices the kills and the step-down need to find a queue to act on.
func (o *Options) fewest() int {
	if o.Kill || o.StepDown {
		return 4 * o.Workers * o.Goroutines
	}
	return 1
}

// load reads the input and cuts it to size.
func (o *Options) load() ([]Invoice, error) {
	all, err := readInput(o.Input)
	if err != nil {
		return nil, err
	}
	n := o.Invoices
	switch {
	case n == 0 && o.Input == "":
		n = min(DefaultInvoices, len(all))
	case n == 0:
		n = len(all)
	case n > len(all):
		return nil, &OptionError{"invoices", strconv.Itoa(n), fmt.Sprintf("the input has only %d", len(all))}
	}
	if few := o.fewest(); n < few {
		return nil, &OptionError{"invoices", strconv.Itoa(n), fmt.Sprintf(
			"must be at least %d (4 for each goroutine of each worker), or use --no-kill and --no-step-down", few)}
	}
	return all[:n], nil
}
