// Command bench measures fairlock, and the recipes it replaces, on a replica set that it starts. See package bench for the method.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/fairlock/fairlock/bench/contend"
	"github.com/fairlock/fairlock/bench/fair"
	"github.com/fairlock/fairlock/bench/recipes"
	"github.com/fairlock/fairlock/bench/report"
	"github.com/fairlock/fairlock/bench/run"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case contend.Subcommand:
			os.Exit(contend.Main(append(recipes.Kinds(), contend.Fairlock(), contend.Semaphore()), os.Args[2:]))
		case fair.Subcommand:
			os.Exit(fair.Main(os.Args[2:]))
		}
	}
	opts, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, opts); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench measures, prints and writes. What was measured before a failure is printed too.
func bench(ctx context.Context, o options) (err error) {
	server, err := run.StartMongo(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	p := &plan{options: o, server: server}
	p.out.Machine = report.ThisMachine(map[string]string{"mongod": server.Version()})
	failed := p.run(ctx)
	fmt.Println(p.out.Markdown())
	if failed != nil {
		return failed
	}
	if o.out == "" {
		return nil
	}
	return p.out.Write(o.out)
}
