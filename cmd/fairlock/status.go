package main

import "github.com/spf13/cobra"

// newStatusCmd is a placeholder.
func newStatusCmd() *cobra.Command { return &cobra.Command{Use: "status"} }
