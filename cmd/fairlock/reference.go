package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// newReferenceCmd prints docs/cli.md. A test holds the page against it.
func newReferenceCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "reference",
		Short:  "Print docs/cli.md",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), reference(cmd.Root()))
			return err
		},
	}
}

// reference is the manual of all commands, in Markdown, made of what --help says.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# The command line\n\n" +
		"<!-- Made by: go run ./cmd/fairlock reference > docs/cli.md -->\n\n")
	all := documented(root)
	b.WriteString("| | |\n| --- | --- |\n")
	for _, c := range all[1:] {
		fmt.Fprintf(&b, "| [%s](#fairlock-%s) | %s |\n", c.Name(), c.Name(), c.Short)
	}
	for _, c := range all {
		b.WriteString("\n")
		writeReference(&b, c)
	}
	return b.String()
}

func writeReference(b *strings.Builder, c *cobra.Command) {
	block := func(text string) { fmt.Fprintf(b, "```text\n%s\n```\n", strings.TrimRight(text, "\n")) }
	fmt.Fprintf(b, "## %s\n\n%s.\n\n", c.CommandPath(), c.Short)
	block(useLine(c))
	for _, p := range paragraphs(c.Long) {
		b.WriteString("\n")
		if p.asIs {
			block(p.text)
		} else {
			fmt.Fprintf(b, "%s\n", markdown(p.text))
		}
	}
	flags, title := c.NonInheritedFlags(), "Flags"
	if !c.HasParent() {
		flags, title = c.PersistentFlags(), "Flags of all commands"
	}
	if text := flags.FlagUsagesWrapped(110); text != "" {
		fmt.Fprintf(b, "\n%s:\n\n", title)
		block(text)
	}
	if c.Example != "" {
		b.WriteString("\nExamples:\n\n```sh\n" + strings.TrimRight(c.Example, "\n") + "\n```\n")
	}
}

// markdown keeps a reader of Markdown from seeing more in prose than is there.
func markdown(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "`", "\\`").Replace(s)
}
