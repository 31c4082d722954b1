// Command mutants runs the mutants of package mutants and prints which test caught each.
//
//	go run ./internal/mutants/cmd/mutants                                 # make mutants
//	go run ./internal/mutants/cmd/mutants -run no-tombstone,waiter        # some of them
//	go run ./internal/mutants/cmd/mutants -run new-one -hunt -v           # which tests of the catcher's package fail?
//	go run ./internal/mutants/cmd/mutants -write docs/testing.md          # put the table there
//
// The exit code is 0 when all were caught.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/internal/mutants"
	"github.com/fairlock/fairlock/internal/replset"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	ids := flag.String("run", "", "ids, files or packages of mutants, separated by commas, . is the root; id* is all that begin so; default all")
	list := flag.Bool("list", false, "print the list and run nothing")
	hunt := flag.Bool("hunt", false, "run all tests of the catchers' packages and print which fail")
	verbose := flag.Bool("v", false, "print what the test binaries print")
	write := flag.String("write", "", "file with the markers between which the table is to stand; not with -run")
	limit := flag.Duration("limit", time.Minute, "time for one catcher")
	flag.Parse()
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	var some []string
	if *ids != "" {
		some = strings.Split(*ids, ",")
	}
	ms, err := mutants.Select(mutants.All(), some)
	if err != nil {
		return err
	}
	if *list {
		for _, m := range ms {
			fmt.Printf("%-28s %-20s %s\n%-28s %s\n", m.ID, m.File, m.Catch.Name(), "", m.Fault)
		}
		return nil
	}
	if *write != "" && (*ids != "" || *hunt) {
		return errors.New("-write wants the whole list")
	}
	o := mutants.Options{Root: root, Limit: *limit, Hunt: *hunt}
	for _, m := range ms {
		if m.Catch.Pkg == "integration" {
			uri, set, err := replset.FromEnvOrStart(ctx, replset.Options{})
			if err != nil {
				return err
			}
			if set != nil {
				defer func() {
					end, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					err = errors.Join(err, set.Stop(end))
				}()
			}
			o.Env = []string{replset.EnvURI + "=" + uri}
			break
		}
	}
	o.Done = func(r mutants.Result) {
		fmt.Printf("%-28s %-15s %7.2fs  %s\n", r.Mutant.ID, r.Verdict, r.Took.Seconds(), r.Mutant.Catch.Name())
		if *hunt {
			fmt.Println("    fail:", strings.Join(r.Failed, ", "))
		}
		if *verbose || r.Verdict == mutants.Unbuilt || r.Verdict == mutants.Otherwise && !*hunt {
			fmt.Println(indent(r.Output))
		}
	}
	began := time.Now()
	results, err := mutants.Run(ctx, ms, o)
	if err != nil {
		return err
	}
	if *hunt {
		return nil
	}
	caught := 0
	for _, r := range results {
		if r.Verdict == mutants.Caught {
			caught++
		}
	}
	fmt.Printf("\n%d mutants, %d caught, in %v\n", len(results), caught, time.Since(began).Round(time.Second))
	if caught < len(results) {
		return fmt.Errorf("%d mutants were not caught", len(results)-caught)
	}
	if *write == "" {
		return nil
	}
	page, err := os.ReadFile(*write)
	if err != nil {
		return err
	}
	page, err = mutants.Rewrite(page, mutants.Table(results, time.Now(), time.Since(began)))
	if err != nil {
		return fmt.Errorf("%s: %w", *write, err)
	}
	return os.WriteFile(*write, page, 0o644)
}

// moduleRoot is the folder of the go.mod that the go command uses here.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// indent shows the end of what a process printed.
func indent(out string) string {
	const most = 4000
	if len(out) > most {
		out = "..." + out[len(out)-most:]
	}
	return "    " + strings.ReplaceAll(strings.TrimSpace(out), "\n", "\n    ")
}
