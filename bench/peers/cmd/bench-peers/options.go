package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/fairlock/bench/report"
	"github.com/fairlock/fairlock/bench/run"
)

type options struct {
	contestants []run.Contestant
	sizes       []int
	holds       []time.Duration
	window      time.Duration
	idle        time.Duration
	out         string
	resume      bool
}

// patient are the recipes that are run by default beside those that try every millisecond: with the pause of the earlier
// measurements, 100 ms for findAndModify and 50 ms for the others.
var patient = []string{"mongo-exists-50ms", "mongo-state-50ms", "mongo-spin-50ms", "mongo-modify-100ms"}

// extra reports whether kind is run only when it is named or -recipes asks for all.
func extra(kind string) bool {
	return report.Recipe(kind) && !strings.HasSuffix(kind, "-1ms") && !slices.Contains(patient, kind)
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("bench-peers", flag.ExitOnError)
	only := f.String("only", "", "kinds, or servers (mongo, redis, etcd, postgres, zookeeper) for all kinds on them, separated by commas; default: all.\n"+
		"The kinds are "+strings.Join(kindNames(), ", "))
	all := f.Bool("recipes", false, "every recipe with every pause; else two pauses of each")
	sizes := f.String("sizes", "2,8,32,128", "numbers of processes")
	holds := f.String("holds", "0s,5ms", "how long the lock is held each time")
	f.DurationVar(&o.window, "window", 3*time.Second, "time that is measured of each run; twice that from 128 processes on, so that each has its turn")
	f.DurationVar(&o.idle, "idle", 10*time.Second, "time that is measured of blocked processes, 128 where the kind can; 0: they are not measured")
	f.StringVar(&o.out, "out", "results", "folder for the results")
	f.BoolVar(&o.resume, "resume", false, "skip what the results have, measured with the same window")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("argument %q: there are none, only flags", f.Arg(0))
	}
	if o.window < 100*time.Millisecond || o.idle < 0 {
		return o, errors.New("-window must be at least 100ms, and -idle not negative")
	}
	if o.contestants, err = choose(*only, *all); err != nil {
		return o, err
	}
	if o.sizes, err = list(*sizes, "sizes", func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err == nil && (n < 1 || n > 512) {
			err = errors.New("out of 1 to 512")
		}
		return n, err
	}); err != nil {
		return o, err
	}
	if o.holds, err = list(*holds, "holds", func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err == nil && d < 0 {
			err = errors.New("negative")
		}
		return d, err
	}); err != nil {
		return o, err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil { // better now than after the first run
		return o, fmt.Errorf("-out %q must be a folder: %w", o.out, err)
	}
	return o, nil
}

// choose keeps the contestants that -only names, each or by server; of the extra recipes only those that it names each, or all if asked.
func choose(only string, every bool) ([]run.Contestant, error) {
	all := contestants()
	var wanted []string
	if only != "" {
		var err error
		if wanted, err = list(only, "only", func(s string) (string, error) {
			if !slices.ContainsFunc(all, func(c run.Contestant) bool { return c.Kind == s || c.Server == s }) {
				return s, errors.New("neither a kind nor a server")
			}
			return s, nil
		}); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(c run.Contestant) bool {
		switch {
		case slices.Contains(wanted, c.Kind):
			return false
		case only != "" && !slices.Contains(wanted, c.Server):
			return true
		}
		return extra(c.Kind) && !every
	}), nil
}

// list reads the parts of a flag's value.
func list[T any](value, name string, read func(string) (T, error)) (all []T, err error) {
	for part := range strings.SplitSeq(value, ",") {
		v, err := read(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("-%s: %q: %w", name, part, err)
		}
		all = append(all, v)
	}
	return all, nil
}
