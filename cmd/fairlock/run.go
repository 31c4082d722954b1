package main

import "github.com/spf13/cobra"

// newRunCmd is a placeholder.
func newRunCmd() *cobra.Command { return &cobra.Command{Use: "run"} }
