package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock"
)

// completeLimit bounds how long the Tab key looks for names.
const completeLimit = 2 * time.Second

// completeName offers the names of locks. A failure offers nothing: a message would land in the command line that is being typed.
func completeName(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeLimit)
	defer cancel()
	s := sharedOf(cmd)
	s.verbose = false
	m, err := s.open(ctx, fairlock.Config{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer func() { _ = m.close(ctx) }()
	locks, _ := m.List(ctx)
	var names []string
	for i := range locks {
		// A tab or a line's end in a suggestion would be read as something else; no valid name has one.
		if name := locks[i].Name; fairlock.ValidateName(name) == nil && strings.HasPrefix(name, begun) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeNameOnly leaves what follows NAME to the shell: it is a command.
func completeNameOnly(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return completeName(cmd, args, begun)
}

const completionLong = `completion prints a script that makes the Tab key complete commands, flags and the names of locks. Names come from
the MongoDB of FAIRLOCK_URI or MONGODB_URI, within two seconds or not at all.

  bash        source <(fairlock completion bash)
              or: fairlock completion bash > /etc/bash_completion.d/fairlock
  zsh         fairlock completion zsh > "${fpath[1]}/_fairlock"
  fish        fairlock completion fish > ~/.config/fish/completions/fairlock.fish
  powershell  fairlock completion powershell | Out-String | Invoke-Expression`

func newCompletionCmd() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:                   "completion SHELL",
		Short:                 "Print a script for completion in a shell",
		Long:                  completionLong,
		DisableFlagsInUseLine: true,
		ValidArgs:             shells,
		Args: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return usagef(cmd, "SHELL is missing: must be %s", strings.Join(shells, ", "))
			case 1:
				return nil
			}
			return usagef(cmd, "unexpected argument %q after SHELL %q", args[1], args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			return usagef(cmd, "SHELL is %q: must be %s", args[0], strings.Join(shells, ", "))
		},
	}
}
