package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/term"

	"github.com/fairlock/fairlock/internal/demo"
	"github.com/fairlock/fairlock/internal/replset"
)

// exitFailed: a proof failed.
const exitFailed = 1

// demoFlags is the flags of demo, beside those that all commands have.
type demoFlags struct {
	o                            demo.Options
	json                         bool
	noKill, noStepDown, stepDown bool
}

func newDemoCmd() *cobra.Command {
	var d demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Batch workers fight for a lock, are killed, and the ledger proves that it held",
		Long: "demo starts a MongoDB replica set, and worker processes that number invoices into a ledger: read the last row, compute\n" +
			"the next, write it; under one lock. It kills one worker while it holds and one while it waits, starts replacements,\n" +
			"and has the primary step down. At the end it proves from the ledger: no gap, no double, tokens strictly increasing,\n" +
			"grants in order of arrival, one holder at a time; and shows what a hand-off costs beside one plain write.\n\n" +
			"The exit code is 1, and the evidence is shown, when a proof fails, or nobody is granted the lock any more.\n\n" +
			"With --uri or FAIRLOCK_URI it uses that deployment instead (MONGODB_URI alone is not taken: this is a load test). It\n" +
			"writes to collections of its own in database fairlock_demo, or that of --db, drops them at the end, and has the primary\n" +
			"step down only with --step-down.",
		Example: "  fairlock demo\n" +
			"  fairlock demo --input invoices.csv --invoices 500     # header: customer,amount\n" +
			"  fairlock demo --json | tail -1 | jq .handoff\n" +
			"  fairlock demo --uri mongodb://db1,db2,db3/?replicaSet=rs0 --step-down",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd, d) },
	}
	f := cmd.Flags()
	f.IntVar(&d.o.Workers, "workers", demo.DefaultWorkers, "worker processes")
	f.IntVar(&d.o.Goroutines, "goroutines", demo.DefaultGoroutines, "goroutines of each worker")
	f.StringVar(&d.o.Input, "input", "", "CSV file with the header customer,amount (default a sample)")
	f.IntVar(&d.o.Invoices, "invoices", 0, "how many lines of the input to take (default 800 of the sample, all of a file)")
	f.DurationVar(&d.o.Hold, "hold", 0, "time of work inside the lock, beside the ledger")
	f.DurationVar(&d.o.TTL, "ttl", demo.DefaultTTL, "lease of a worker: how long a killed one delays the others")
	f.Uint64Var(&d.o.Seed, "seed", 0, "chooses victims and moments (default random)")
	f.BoolVar(&d.noKill, "no-kill", false, "kill nobody")
	f.BoolVar(&d.noStepDown, "no-step-down", false, "leave the primary alone")
	f.BoolVar(&d.stepDown, "step-down", false, "have the primary step down, also of the deployment that was given")
	f.BoolVar(&d.o.Keep, "keep", false, "drop nothing at the end; servers that were started run until Ctrl-C")
	f.BoolVar(&d.json, "json", false, "one JSON object a line, the last one a summary")
	cmd.AddCommand(&cobra.Command{
		Use:    "worker",
		Short:  "One worker process; for demo itself",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.RunWorker(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	})
	return cmd
}

func runDemo(cmd *cobra.Command, d demoFlags) error {
	s, o := sharedOf(cmd), d.o
	o.URI = s.uri
	if !cmd.Flags().Changed("uri") {
		o.URI = os.Getenv(replset.EnvURI)
	}
	o.DB, o.Prefix = cmp.Or(s.db, demo.DefaultDB), cmp.Or(s.prefix, "fairlock.")
	o.Kill = !d.noKill
	o.StepDown = d.stepDown || o.URI == "" && !d.noStepDown
	o.Log = s.logger()
	switch {
	case d.stepDown && d.noStepDown:
		return usagef(cmd, "--step-down and --no-step-down exclude each other")
	case cmd.Flags().Changed("uri") && o.URI == "":
		return usagef(cmd, "--uri is empty: leave it out to have a replica set started")
	case cmd.Flags().Changed("invoices") && o.Invoices < 1:
		return usagef(cmd, "--invoices is %d: must be positive", o.Invoices)
	}
	if o.URI != "" {
		if err := options.Client().ApplyURI(o.URI).Validate(); err != nil {
			return usagef(cmd, "bad connection string: %w", err)
		}
	}
	if !cmd.Flags().Changed("seed") {
		o.Seed = rand.Uint64N(1_000_000) //nolint:gosec // chooses victims
	}
	self, err := os.Executable()
	if err != nil {
		return exitf(exitInternal, "path of this program, to start workers: %w", err)
	}
	o.Worker = func() *exec.Cmd { return exec.Command(self, "demo", "worker") }
	o.View = viewOf(cmd.OutOrStdout(), d.json)

	var sum *demo.Summary
	err = interruptible(cmd.Context(), func(ctx context.Context) (err error) {
		sum, err = demo.Run(ctx, o)
		return err
	})
	switch {
	case sum != nil && !sum.OK && err == nil:
		return exitCode(exitFailed) // the summary has said which proof failed, and why
	case sum != nil && !sum.OK, errors.Is(err, demo.ErrFailed):
		return exitf(exitFailed, "%w", err)
	case errors.Is(err, demo.ErrOption):
		return usagef(cmd, "%w", err)
	case errors.Is(err, replset.ErrNoMongod), errors.Is(err, replset.ErrUnsupported):
		return exitf(exitUnavailable, "%w", err)
	}
	return err
}

// viewOf chooses how a run is shown: JSON if asked for, a picture on a terminal, lines elsewhere.
func viewOf(w io.Writer, asJSON bool) demo.View {
	file, ok := w.(*os.File)
	switch {
	case asJSON:
		return demo.NewJSON(w)
	case !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb":
		return demo.NewPlain(w)
	}
	size := func() (width, height int) {
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil || width < 1 || height < 1 {
			return 80, 24
		}
		return width, height
	}
	return demo.NewLive(w, size, os.Getenv("NO_COLOR") == "")
}
