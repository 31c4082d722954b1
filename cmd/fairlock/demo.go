package main

import "github.com/spf13/cobra"

// newDemoCmd is a placeholder.
func newDemoCmd() *cobra.Command { return &cobra.Command{Use: "demo"} }
