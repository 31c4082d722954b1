package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

const manLong = `man writes a man page for fairlock and one for each of its commands into the folder DIR, which is made if it is missing.

  fairlock man ~/.local/share/man/man1
  man fairlock-run`

func newManCmd() *cobra.Command {
	return &cobra.Command{
		Use:                   "man DIR",
		Short:                 "Write man pages into a folder",
		Long:                  manLong,
		DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 || args[0] == "":
				return usagef(cmd, "DIR is missing")
			case len(args) > 1:
				return usagef(cmd, "unexpected argument %q after DIR %q", args[1], args[0])
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return exitf(exitInternal, "cannot make the folder: %w", err)
			}
			var failed error
			for _, c := range documented(cmd.Root()) {
				file := filepath.Join(args[0], strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
				failed = errors.Join(failed, os.WriteFile(file, []byte(manPage(c)), 0o644))
			}
			if failed != nil {
				return exitf(exitInternal, "cannot write: %w", failed)
			}
			return nil
		},
	}
}

// documented is the root and the commands that people use, in the order in which they are made.
func documented(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, c := range commandsOf(root) {
		if !c.Hidden {
			all = append(all, c)
		}
	}
	return all
}

// commandsOf finds the commands in the order of commands(): cobra sorts them.
func commandsOf(root *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, like := range commands() {
		for _, c := range root.Commands() {
			if c.Name() == like.Name() {
				all = append(all, c)
			}
		}
	}
	return all
}

// manWidth is what a terminal of 80 columns leaves to text that must stay as it is: the formatter indents it by 7.
const manWidth = 72

// manPage is in the man macros. What people wrote for --help is the source.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	dashed := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"fairlock\" \"User Commands\"\n", strings.ToUpper(roff(dashed)))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(dashed), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(useLine(c)))
	b.WriteString(".nh\n.ad l\n") // a word that is divided, or spread, could not be copied into a shell
	b.WriteString(".SH DESCRIPTION\n")
	for i, p := range paragraphs(c.Long) {
		rows := p.rows()
		if i > 0 && rows == nil {
			b.WriteString(".PP\n")
		}
		switch {
		case rows != nil:
			for _, row := range rows {
				fmt.Fprintf(&b, ".TP 13\n%s\n%s\n", roff(row[0]), roff(row[1]))
			}
		case p.asIs:
			fmt.Fprintf(&b, ".nf\n%s\n.fi\n", roff(p.text))
		default:
			fmt.Fprintf(&b, "%s\n", roff(p.text))
		}
	}
	for _, s := range []struct{ head, text string }{
		{"OPTIONS", c.NonInheritedFlags().FlagUsagesWrapped(manWidth)},
		{"OPTIONS OF ALL COMMANDS", c.InheritedFlags().FlagUsagesWrapped(manWidth)},
		{"EXAMPLES", c.Example},
	} {
		if s.text = strings.TrimRight(s.text, "\n"); s.text != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", s.head, roff(s.text))
		}
	}
	if !c.HasParent() {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range documented(c)[1:] {
			fmt.Fprintf(&b, ".TP\n.BR fairlock\\-%s (1)\n%s\n", roff(sub.Name()), roff(sub.Short))
		}
	} else {
		b.WriteString(".SH SEE ALSO\n.BR fairlock (1)\n")
	}
	return b.String()
}

// roff makes text that the formatter prints as it is: no escapes, no line that is a request, and no typographic signs in place
// of what a shell must be given.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "~", `\(ti`, "^", `\(ha`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

// useLine is the command's own, without what cobra adds.
func useLine(c *cobra.Command) string {
	if !c.HasParent() {
		return c.Name() + " COMMAND [flags] [arguments]"
	}
	return c.Parent().CommandPath() + " " + c.Use
}

// paragraph is a part of a help text: prose, or a table that must stay as it is.
type paragraph struct {
	asIs bool
	text string
}

// rows are those of a table of two columns, a word or a few and what they mean, which may go on in further lines. Of anything
// else they are nil.
func (p paragraph) rows() (rows [][2]string) {
	if !p.asIs {
		return nil
	}
	for line := range strings.SplitSeq(p.text, "\n") {
		text := strings.TrimLeft(line, " ")
		key, means, ok := strings.Cut(text, "  ")
		switch indent := len(line) - len(text); {
		case text == "":
		case indent == 2 && ok:
			rows = append(rows, [2]string{key, strings.TrimLeft(means, " ")})
		case indent > 2 && len(rows) > 0:
			rows[len(rows)-1][1] += "\n" + text
		default:
			return nil
		}
	}
	return rows
}

// paragraphs divides a help text at empty lines, and where indented lines begin or end.
func paragraphs(text string) []paragraph {
	var all []paragraph
	ended := true
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		if strings.TrimSpace(line) == "" {
			ended = true
			continue
		}
		asIs := strings.HasPrefix(line, " ")
		switch last := len(all) - 1; {
		case last >= 0 && all[last].asIs == asIs && !ended:
			all[last].text += "\n" + line
		case last >= 0 && all[last].asIs && asIs:
			all[last].text += "\n\n" + line
		default:
			all = append(all, paragraph{asIs, line})
		}
		ended = false
	}
	return all
}
