package main

import (
	"cmp"
	"context"
	"fmt"
	"os/user"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/queue"
)

// asOperator is how those who act by hand sign: with the name of their user.
func asOperator() fairlock.Config {
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	name = cmp.Or(name, "fairlock")
	if len(name) > 255 || !utf8.ValidString(name) {
		name = "fairlock"
	}
	return fairlock.Config{Label: name}
}

// done tells what a command has done, as a line or as JSON.
func done(cmd *cobra.Command, asJSON bool, value any, format string, args ...any) error {
	if asJSON {
		return view{out: cmd.OutOrStdout()}.json(value)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
	return err
}

func newRequestReleaseCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "request-release [flags] NAME",
		Short: "Ask the holders of a lock to give it back",
		Long: "request-release asks those who hold the lock NAME at this moment to give it back. It forces nobody: a holder hears of\n" +
			"it within about a second, if its program asks (Lock.Requested); a command of fairlock run, if --on-request is set.\n" +
			"\"queue NAME\" shows the newest request.\n\n" +
			"Exit code 4: nobody holds the lock.",
		Args:                  oneName,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return sharedOf(cmd).use(asOperator(), func(ctx context.Context, m *opened) error {
				if err := m.RequestRelease(ctx, args[0]); err != nil {
					return err
				}
				return done(cmd, asJSON, struct {
					Name string `json:"name"`
				}{args[0]}, "asked the holders of %q", args[0])
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: name")
	return cmd
}

const releaseLong = `release takes the lock NAME from the holder with the token N, and the next in line is admitted at once.

This is dangerous. The holder is told when it renews its lease, so after a third of it at most; until then it works beside
the next one, and only what checks tokens notices. So look first ("queue NAME" has the token), ask ("request-release"), end the
holder's process if you can, and force what is left. A holder that is dead or cut off needs no force: its lease ends it.

Exactly that grant is ended: never one that waits, and never the next one if the lock has moved on meanwhile. Who, when and why
stay in the lock's document, and "queue NAME" shows them.

Exit code 4: the lock is not held with that token, or has been for less than about a second, when it is not known yet whose it is.`

func newReleaseCmd() *cobra.Command {
	var force, asJSON bool
	var token int64
	var reason string
	cmd := &cobra.Command{
		Use:                   "release [flags] NAME",
		Short:                 "Take a lock from its holder, by force",
		Long:                  releaseLong,
		Example:               "  fairlock release import --force --token 4711 --reason 'hangs since Monday, ticket OPS-12'",
		Args:                  oneName,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed
			switch {
			case !force:
				return usagef(cmd, "--force is missing: the holder may go on beside the next one")
			case !given("token"):
				return usagef(cmd, "--token is missing: it says which grant to end; \"fairlock queue %s\" shows it", args[0])
			case token < 1:
				return usagef(cmd, "--token is %d: must be positive", token)
			case !given("reason"):
				return usagef(cmd, "--reason is missing: it stays in the lock's document")
			case reason == "" || len(reason) > 255 || !utf8.ValidString(reason):
				return usagef(cmd, "--reason has %d bytes: must be 1 to 255 of valid UTF-8", len(reason))
			}
			return sharedOf(cmd).use(asOperator(), func(ctx context.Context, m *opened) error {
				if err := m.ForceUnlock(ctx, args[0], token, reason); err != nil {
					return err
				}
				return done(cmd, asJSON, struct {
					Name   string `json:"name"`
					Token  int64  `json:"token"`
					Reason string `json:"reason"`
				}{args[0], token, reason}, "unlocked %q: token %d", args[0], token)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&force, "force", false, "yes, although the holder may work on beside the next one for a third of its lease")
	f.Int64Var(&token, "token", 0, "the holder's token")
	f.Lookup("token").DefValue = "0" // which is not shown: there is no default
	f.StringVar(&reason, "reason", "", "why, 1 to 255 bytes, for those who look later")
	f.BoolVar(&asJSON, "json", false, "print one JSON object: name, token and reason")
	return cmd
}

func newPermitsCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "permits [flags] NAME N",
		Short: "Change how many permits a semaphore has",
		Long: "permits changes the permits of the semaphore NAME to N, 1 to 10000, for all who use it, whatever number they name. With\n" +
			"more, those who now fit are admitted at once, in order. With fewer nobody loses anything: nobody is admitted until enough\n" +
			"were given back, and calls that want more units than there are any more fail. A semaphore that is not there is made.\n\n" +
			"Exit code 64: NAME is a lock of another kind, which is not changed.",
		Example:               "  fairlock permits crawlers 8",
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeName,
		Args: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 0, 1:
				return usagef(cmd, "NAME and N are missing, or one of them")
			case 2:
				return oneName(cmd, args[:1])
			}
			return usagef(cmd, "unexpected argument %q after N %q", args[2], args[1])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			n, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil || n < 1 || n > queue.MostPermits {
				return usagef(cmd, "N is %q: must be a number from 1 to %d", args[1], int64(queue.MostPermits))
			}
			return sharedOf(cmd).use(asOperator(), func(ctx context.Context, m *opened) error {
				s, err := m.Semaphore(name, n)
				if err == nil {
					err = s.SetPermits(ctx, n)
				}
				if err != nil {
					return err
				}
				return done(cmd, asJSON, struct {
					Name    string `json:"name"`
					Permits int64  `json:"permits"`
				}{name, n}, "semaphore %q has %d permits", name, n)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: name and permits")
	return cmd
}
