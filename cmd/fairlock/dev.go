package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/internal/replset"
)

func newDevCmd() *cobra.Command {
	var members int
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Start a throwaway replica set and print its URI",
		Long: "dev starts a MongoDB replica set on loopback, prints its URI, alone, on standard output, and stays until it gets\n" +
			"SIGINT (Ctrl-C), SIGTERM or SIGHUP. Servers and data are gone then, also when dev is killed.\n\n" +
			"mongod comes from FAIRLOCK_MONGOD, PATH or a cache, and is downloaded to the cache if it is in none of them.",
		Example: "  fairlock dev                 # prints: mongodb://127.0.0.1:.../?replicaSet=fairlock\n" +
			"  fairlock dev --members 3 -v",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if members != 1 && members != 3 {
				return usagef(cmd, "--members is %d: must be 1 or 3", members)
			}
			return dev(cmd, members)
		},
	}
	cmd.Flags().IntVar(&members, "members", 1, "number of servers, 1 or 3")
	return cmd
}

func dev(cmd *cobra.Command, members int) error {
	ctx, sig, stop := untilSignal(cmd.Context())
	defer stop()
	tell := func(format string, args ...any) { _, _ = fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }

	tell("starting a replica set of %d; the first start may have to download mongod", members)
	set, err := replset.Start(ctx, replset.Options{Members: members, Log: sharedOf(cmd).logger()})
	switch {
	case err != nil && sig() != 0:
		return signalled(sig())
	case errors.Is(err, replset.ErrOptions):
		return exitf(exitInternal, "%w", err)
	case err != nil:
		return exitf(exitUnavailable, "%w", err)
	}
	tell("MongoDB %s is ready; use it with\n  export FAIRLOCK_URI='%s'\nCtrl-C ends it and throws its data away", set.Binary().Version, set.URI())
	_, err = fmt.Fprintln(cmd.OutOrStdout(), set.URI())
	if err == nil {
		// Nothing has failed when it ends by a signal: that is how it is meant to end.
		<-ctx.Done()
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	if err := errors.Join(err, set.Stop(end)); err != nil {
		return exitf(exitInternal, "%w", err)
	}
	tell("stopped")
	return nil
}

// noArgs is cobra.NoArgs with our exit code.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(cmd, "unexpected argument %q", args[0])
	}
	return nil
}
