//go:build !(linux || darwin || freebsd)

package main

import (
	"runtime"

	"github.com/spf13/cobra"
)

// newRunCmd says that what run promises about the command's processes rests on process groups.
func newRunCmd() *cobra.Command {
	return &cobra.Command{
		Use:                "run",
		Short:              "Run a command under a lock (not on this system)",
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return exitf(exitInternal, "run is not available on %s: it needs process groups", runtime.GOOS)
		},
	}
}

// beGuard is nothing here, where nothing is run.
func beGuard([]string) int { return exitUsage }
