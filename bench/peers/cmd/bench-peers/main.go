// Command bench-peers measures fairlock beside the recipes it replaces and beside other lock libraries, each on its own server, all in
// one way: see package run for the method and package peers for the set-ups.
//
// It writes peers.json, peers.md and the plots in peers/ below -out. What is to be measured is taken out of the results first; the rest of what
// was measured before stays. Each run is in peers.json as soon as it is over: one that was interrupted goes on with -resume and the same
// flags. What cannot be measured is in the tables too, with the reason.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/fairlock/fairlock/bench/contend"
	"github.com/fairlock/fairlock/bench/peers"
	"github.com/fairlock/fairlock/bench/recipes"
	"github.com/fairlock/fairlock/bench/run"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == contend.Subcommand {
		os.Exit(contend.Main(kinds(), os.Args[2:]))
	}
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers:", err)
		os.Exit(1)
	}
}

// kinds are those that are this binary.
func kinds() []contend.Kind {
	return slices.Concat([]contend.Kind{contend.Fairlock()}, recipes.Kinds(), peers.Kinds())
}

// contestants are all, in the order of the tables.
func contestants() []run.Contestant {
	all := []run.Contestant{{Kind: contend.Fairlock().Name, Server: "mongo"}}
	for _, k := range recipes.Kinds() {
		all = append(all, run.Contestant{Kind: k.Name, Server: k.Server})
	}
	return append(all, peers.All()...)
}
