package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/internal/lockbench"
	"github.com/fairlock/fairlock/internal/measure"
	"github.com/fairlock/fairlock/internal/replset"
)

const defaultBenchDB = "fairlock_bench"

const benchLong = `bench measures what locks cost on your deployment, from this machine: worker processes wait in line for one lock, and hand
it on for --duration. It prints

  floor      one majority write, by one client with nobody else about: what no hand-off can be faster than
  pair       Lock and Unlock of a lock that nobody wants: two such writes
  hand-off   from the start of Unlock to the next one's grant, in another process that waited already
  inside     the same, to another goroutine of the same process (with --goroutines above 1)

each with median and 99th percentile, and with both as multiples of the floor's, which say more of the lock than milliseconds do.
Take a quiet moment and look at several runs: the 99th percentile is of few measurements.

JSON has server, database, processes, goroutines, holdMs, durationMs, acquisitions, acquisitionsPerSecond, and floor, pair, handoff and
handoffInside: n, p50Ms, p99Ms and maxMs, and but for the floor p50Floors and p99Floors.

It is a load test, so MONGODB_URI alone is not taken, nor the database in the URI: its collections are in database fairlock_bench, or that
of --db, which must be empty and is dropped at the end, also after Ctrl-C. That needs the role readWrite on it.`

// benchFlags is the flags of bench, beside those that all commands have.
type benchFlags struct {
	processes, goroutines int
	duration, hold        time.Duration
	json                  bool
}

func newBenchCmd() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what a hand-off costs on a deployment",
		Long:  benchLong,
		Example: "  fairlock bench --uri 'mongodb://db1,db2,db3/?replicaSet=rs0'\n" +
			"  fairlock bench --processes 16 --duration 30s --hold 5ms\n" +
			"  fairlock bench --json | jq .handoff.p50Floors",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.IntVar(&f.processes, "processes", 4, "worker processes, 1 to 64")
	fl.IntVar(&f.goroutines, "goroutines", 1, "goroutines of each that take the lock, 1 to 256; 3 of all at least")
	fl.DurationVar(&f.duration, "duration", 10*time.Second, "time of hand-offs, 1s to 1h")
	fl.DurationVar(&f.hold, "hold", 10*time.Millisecond, "time that the lock is held for, up to 1s; 0s loads the servers as much as it can")
	fl.BoolVar(&f.json, "json", false, "print one JSON object")
	cmd.AddCommand(&cobra.Command{
		Use:    "worker",
		Short:  "One worker process; for bench itself",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return lockbench.RunWorker(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	})
	return cmd
}

func (f *benchFlags) check(cmd *cobra.Command) error {
	bad := func(format string, args ...any) error { return usagef(cmd, format, args...) }
	switch {
	case f.processes < 1 || f.processes > 64:
		return bad("--processes is %d: must be from 1 to 64", f.processes)
	case f.goroutines < 1 || f.goroutines > 256:
		return bad("--goroutines is %d: must be from 1 to 256", f.goroutines)
	case f.processes*f.goroutines < 3:
		return bad("--processes is %d and --goroutines %d: must be 3 callers at least, for one to wait while two hand on", f.processes, f.goroutines)
	case f.duration < time.Second || f.duration > time.Hour:
		return bad("--duration is %v: must be from 1s to 1h", f.duration)
	case f.hold < 0 || f.hold > time.Second:
		return bad("--hold is %v: must be from 0s to 1s", f.hold)
	}
	return nil
}

func (f *benchFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	s := sharedOf(cmd)
	if !cmd.Flags().Changed("uri") {
		s.uri = os.Getenv(replset.EnvURI)
	}
	if s.uri == "" {
		return usagef(cmd, "no MongoDB to measure: set --uri or FAIRLOCK_URI (MONGODB_URI alone is not taken: this is a load test)")
	}
	s.db = cmp.Or(s.db, defaultBenchDB)
	client, _, err := s.client()
	if err != nil {
		return err
	}
	defer disconnect(cmd.Context(), client)
	self, err := os.Executable()
	if err != nil {
		return exitf(exitInternal, "path of this program, to start workers: %w", err)
	}
	o := lockbench.Options{
		Client: client, URI: s.uri, DB: s.db, Prefix: s.collections(),
		Processes: f.processes, Goroutines: f.goroutines, Duration: f.duration, Hold: f.hold,
		Worker: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, self, "bench", "worker") },
		Log:    s.logger(),
	}
	var r *lockbench.Result
	err = interruptible(cmd.Context(), func(ctx context.Context) (err error) {
		r, err = lockbench.Run(ctx, o)
		return err
	})
	var full *lockbench.NotEmptyError
	switch {
	case errors.As(err, &full):
		return usagef(cmd, "--db: %w", err)
	case err != nil:
		return err
	}
	v := view{out: cmd.OutOrStdout()}
	if f.json {
		return v.json(r)
	}
	return v.bench(r)
}

// bench prints what a run has found.
func (v view) bench(r *lockbench.Result) error {
	_, err := fmt.Fprintf(v.out, "MongoDB %s; %d processes with %d goroutines each hold the lock for %v, during %v: %d holds, %v a second\n\n",
		safe(r.Server), r.Processes, r.Goroutines, r.Hold, r.Duration, r.Acquisitions, r.PerSecond)
	if err != nil {
		return err
	}
	t := &table{}
	t.add("", "N", "P50", "P99", "MAX", "P50/FLOOR", "P99/FLOOR")
	row := func(what string, f lockbench.Figure) {
		if f.N == 0 {
			t.add(what, "0", "-", "-", "-", "-", "-")
			return
		}
		t.add(what, strconv.Itoa(f.N), f.P50.String(), f.P99.String(), f.Max.String(),
			strconv.FormatFloat(f.P50Floors, 'f', 2, 64), strconv.FormatFloat(f.P99Floors, 'f', 2, 64))
	}
	row("floor", lockbench.Figure{Quantiles: r.Floor, P50Floors: measure.Ratio(r.Floor.P50, r.Floor.P50), P99Floors: measure.Ratio(r.Floor.P99, r.Floor.P99)})
	row("pair", r.Pair)
	if r.Processes > 1 {
		row("hand-off", r.Across)
	}
	if r.Goroutines > 1 {
		row("inside", r.Within)
	}
	return t.writeTo(v.out)
}
