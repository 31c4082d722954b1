package main

import "github.com/spf13/cobra"

// newSetupCmd is a placeholder.
func newSetupCmd() *cobra.Command { return &cobra.Command{Use: "setup"} }
