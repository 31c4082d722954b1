package main

import (
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// commands lists the subcommands. Each is made in a file of its own name.
func commands() []*cobra.Command {
	return []*cobra.Command{
		newRunCmd(), newServeCmd(),
		newStatusCmd(), newQueueCmd(), newWatchCmd(),
		newRequestReleaseCmd(), newReleaseCmd(), newPermitsCmd(),
		newSetupCmd(), newDoctorCmd(),
		newDevCmd(), newDemoCmd(), newBenchCmd(),
		newCompletionCmd(), newManCmd(), newReferenceCmd(),
	}
}

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "fairlock",
		Short: "FIFO-fair distributed locks on MongoDB",
		Long: "fairlock runs commands under FIFO-fair distributed locks that live in MongoDB, and shows who holds them and who\n" +
			"waits. Whoever asks first is served first, wherever it runs.\n\n" + exitTable,
		Example: "  fairlock dev                               # terminal 1: a throwaway replica set; prints its URI\n" +
			"  export FAIRLOCK_URI=...                    # terminals 2 and 3\n" +
			"  fairlock run nightly-backup -- ./backup.sh\n" +
			"  fairlock status",
		Version: version(),
		// For "did you mean".
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true, // report prints them
		SilenceUsage:               true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(cmd, args[0])
		},
		// Runnable, so that an unknown command reaches Args and is an error.
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("fairlock {{.Version}}\n")
	// Inherited by all subcommands that set none of their own.
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usagef(cmd, "%v", err) })

	f := root.PersistentFlags()
	f.String("uri", "", "MongoDB connection string (default $FAIRLOCK_URI, then $MONGODB_URI); others on the machine can see arguments, so a password is better there")
	f.String("db", "", `database with the locks (default the one named in the URI, then "fairlock")`)
	f.String("prefix", "", `beginning of the collections' names (default "fairlock.")`)
	f.BoolP("verbose", "v", false, "say on stderr what is done")

	root.SetHelpCommand(newHelpCmd())
	root.CompletionOptions.DisableDefaultCmd = true // ours refuses wrong usage with our exit code
	root.AddCommand(commands()...)
	return root
}

func unknownCommand(root *cobra.Command, name string) error {
	msg := ""
	if near := root.SuggestionsFor(name); len(near) > 0 {
		msg = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef(root, "unknown command %q%s", name, msg)
}

// newHelpCmd is cobra's, but that what it does not know is wrong usage.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND]",
		Short:  "Show the help of a command",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Root().Help()
			}
			for _, c := range documented(cmd.Root())[1:] {
				switch {
				case c.Name() != args[0]:
				case len(args) > 1:
					return usagef(cmd, "unexpected argument %q after COMMAND %q", args[1], args[0])
				default:
					return c.Help()
				}
			}
			return unknownCommand(cmd.Root(), args[0])
		},
	}
}

// version is the module's version as the go command has stamped it, or the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + s.Value[:min(len(s.Value), 12)]
		}
	}
	return "devel"
}
