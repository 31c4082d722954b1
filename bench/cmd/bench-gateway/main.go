// Command bench-gateway measures hand-offs through fairlock's HTTP gateway while many clients are connected and wait. See package bench/gateway for the
// method.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/bench/gateway"
	"github.com/fairlock/fairlock/bench/run"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == gateway.Subcommand {
		os.Exit(gateway.Main(os.Args[2:]))
	}
	waiters := flag.Int("waiters", 2000, "clients in line")
	rounds := flag.Int("rounds", 400, "hand-offs to measure")
	pause := flag.Duration("pause", 20*time.Millisecond, "before each hand-off and each floor")
	idle := flag.Duration("idle", 10*time.Second, "how long the cost of waiting is measured")
	asJSON := flag.Bool("json", false, "print JSON")
	flag.Parse()
	if flag.NArg() > 0 || *waiters < 1 || *rounds < 1 || *pause < 0 || *idle < time.Second {
		fmt.Fprintf(os.Stderr, "bench-gateway: -waiters %d and -rounds %d must be positive, -pause %v not negative, -idle %v at least 1s; no arguments\n",
			*waiters, *rounds, *pause, *idle)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, gateway.Options{Waiters: *waiters, Rounds: *rounds, Pause: *pause, Idle: *idle}, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "bench-gateway:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, o gateway.Options, asJSON bool) (err error) {
	server, err := run.StartMongo(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	for _, n := range []int{1, 2} {
		o.Gateways = n
		r, err := gateway.Measure(ctx, server, o)
		if err != nil {
			return fmt.Errorf("%d gateways: %w", n, err)
		}
		if asJSON {
			err = json.NewEncoder(os.Stdout).Encode(r)
		} else {
			_, err = fmt.Println(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
