// Command soak runs the rows of package faults again and again. Each run is appended to a file as a line of JSON, and what the file has is
// not run again, so a long soak can be made in pieces. It ends with a table; with status 1 if a promise was broken, 2 if a run could
// not be made.
//
//	go run ./cmd/soak -runs 100 -length 60s -rows kill-holder,step-down -resume .faults/soak.jsonl
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/integration/faults"
)

func main() {
	faults.WorkerMain()
	os.Exit(run())
}

func run() int {
	var o faults.SoakOptions
	flag.IntVar(&o.Runs, "runs", 1, "runs of each row")
	flag.DurationVar(&o.Length, "length", time.Minute, "length of each run's fault phase")
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of all runs")
	flag.StringVar(&o.File, "resume", filepath.Join(".faults", "soak.jsonl"), "file of results: what it has is not run again")
	names := flag.String("rows", "", "names of rows, with commas between them (default all)")
	dir := flag.String("dir", "", "where runs with violations and pictures are kept (default: the folder of the file)")
	list := flag.Bool("list", false, "list the rows and end")
	flag.Parse()

	all := append(faults.Rows(), moreRows()...)
	if *list {
		for _, r := range all {
			fmt.Printf("%-20s %s\n", r.Name, r.About)
		}
		return 0
	}
	var err error
	if o.Rows, err = choose(all, *names); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 2
	}
	if err := enter(o.Rows); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 2
	}
	if *dir == "" {
		*dir = filepath.Dir(o.File)
	}
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 2
	}
	o.Log = func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rn := &faults.Runner{Dir: *dir, Log: o.Log}
	results, err := faults.Soak(ctx, rn, o)
	fmt.Print(faults.Table(o.Rows, results))
	err = errors.Join(err, rn.Close(ctx))
	switch {
	case err == nil:
		return 0
	case errors.Is(err, faults.ErrUnsound):
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 1
	}
	fmt.Fprintln(os.Stderr, "soak:", err)
	return 2
}

// choose picks rows by name, in the order of all.
func choose(all []faults.Row, names string) (rows []faults.Row, err error) {
	if names == "" {
		return all, nil
	}
	wanted := map[string]bool{}
	for _, n := range strings.Split(names, ",") {
		wanted[n] = true
	}
	for _, r := range all {
		if wanted[r.Name] {
			rows = append(rows, r)
			delete(wanted, r.Name)
		}
	}
	for n := range wanted {
		return nil, fmt.Errorf("there is no row %q; see -list", n)
	}
	return rows, nil
}
