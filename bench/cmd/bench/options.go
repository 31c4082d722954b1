package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// experiments in the order in which they are made.
var experiments = []string{"pair", "handoff", "combine", "crowd", "processes", "semaphore", "idle", "recipes"}

// mostProcesses is what fits in 24 GiB with its connections and threads of the servers.
const mostProcesses = 512

type options struct {
	only   []string
	sizes  []int
	window time.Duration
	long   bool
	out    string
}

func (o options) does(experiment string) bool { return slices.Contains(o.only, experiment) }

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ExitOnError)
	only := f.String("only", "", "experiments, separated by commas: "+strings.Join(experiments, ", ")+
		"; then results are printed, and written only with -out (default: all but recipes)")
	sizes := f.String("sizes", "2,8,32,128,256", "numbers of processes")
	f.DurationVar(&o.window, "window", 8*time.Second, "time that is measured of each run of processes; twice that from 128 on, so that each has its turn several times")
	f.BoolVar(&o.long, "long", false, "hold times of 5 ms too, the recipes, idle cost of the recipes; longer elsewhere: three quarters of an hour in all")
	f.StringVar(&o.out, "out", "results", "folder for the results; \"\": print them only")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("argument %q: there are none, only flags", f.Arg(0))
	}
	if o.window < time.Second || o.window > 10*time.Minute {
		return o, fmt.Errorf("-window %v must be from 1s to 10m", o.window)
	}
	for _, s := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 || n > mostProcesses {
			return o, fmt.Errorf("-sizes %q must be numbers from 1 to %d, separated by commas", *sizes, mostProcesses)
		}
		o.sizes = append(o.sizes, n)
	}
	o.only = experiments
	if !o.long {
		o.only = slices.DeleteFunc(slices.Clone(experiments), func(e string) bool { return e == "recipes" })
	}
	outGiven := false
	f.Visit(func(f *flag.Flag) { outGiven = outGiven || f.Name == "out" })
	if *only != "" {
		o.only = strings.Split(*only, ",")
		for _, e := range o.only {
			if !slices.Contains(experiments, e) {
				return o, fmt.Errorf("-only %q must be one or more of %s", e, strings.Join(experiments, ", "))
			}
		}
		if !outGiven {
			o.out = "" // a part must not replace the whole
		}
	}
	if o.out != "" { // better now than after five minutes
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return o, fmt.Errorf("-out %q must be a folder: %w", o.out, err)
		}
	}
	return o, nil
}
