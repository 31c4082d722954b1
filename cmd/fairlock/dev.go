package main

import "github.com/spf13/cobra"

// newDevCmd is a placeholder.
func newDevCmd() *cobra.Command { return &cobra.Command{Use: "dev"} }
