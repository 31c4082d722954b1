package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReference: docs/cli.md is what the commands say of themselves.
func TestReference(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	require.Equal(t, reference(newRootCmd()), string(page), "docs/cli.md is stale: go run ./cmd/fairlock reference > docs/cli.md")
}

// TestHelp: every command says what it is, and its help has every line of the exit codes that name it.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, c := range documented(newRootCmd()) {
		require.NotEmpty(t, c.Short, c.Name())
		require.NotEmpty(t, c.Long, c.Name())
		require.False(t, strings.HasSuffix(c.Short, "."), c.Name())
		for line := range strings.Lines(c.Long) {
			require.LessOrEqual(t, len([]rune(line)), 140, c.Name())
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^  \d+ +((?:"[a-z -]+"(?:, )?)+):`).FindAllStringSubmatch(exitTable, -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			name, _, _ = strings.Cut(strings.Trim(name, `"`), " ")
			c, _, err := newRootCmd().Find([]string{name})
			require.NoError(t, err)
			require.Equal(t, name, c.Name())
		}
	}
}

// TestParagraphs: tables stay as they are, and prose does not become one.
func TestParagraphs(t *testing.T) {
	t.Parallel()
	require.Equal(t, []paragraph{
		{false, "Prose\nof two lines."},
		{true, "  a  table\n     goes on\n\n  after a gap"},
		{false, "Prose."},
		{false, "More:"},
		{true, "  1  x"},
	}, paragraphs("Prose\nof two lines.\n\n  a  table\n     goes on\n\n  after a gap\nProse.\n\nMore:\n  1  x\n"))
}

// TestRoff: nothing in a text is taken for markup.
func TestRoff(t *testing.T) {
	t.Parallel()
	require.Equal(t, "\\&.TH x\n\\(aqy \\e \\-\\-z\\(ti", roff(".TH x\n'y \\ --z~"))
	require.Equal(t, "\\\\ \\*a\\* x\\_y \\<b> \\`c\\`", markdown("\\ *a* x_y <b> `c`"))
}

// TestRows: a table becomes one that the formatter can break, and nothing else does.
func TestRows(t *testing.T) {
	t.Parallel()
	require.Equal(t, [][2]string{{"a b", "one\ntwo"}, {"c", "three"}}, paragraph{true, "  a b  one\n       two\n\n  c    three"}.rows())
	for _, p := range []paragraph{
		{false, "Prose  here."}, {true, "  fairlock man DIR"}, {true, "    deeper  than a table"},
	} {
		require.Nil(t, p.rows(), p.text)
	}
}

// TestManWidth: nothing that must stay as it is, but examples, is wider than a terminal of 80 columns shows.
func TestManWidth(t *testing.T) {
	t.Parallel()
	for _, c := range documented(newRootCmd()) {
		page, _, _ := strings.Cut(manPage(c), ".SH EXAMPLES")
		for i, block := range strings.Split(page, ".nf\n") {
			if i == 0 {
				continue
			}
			block, _, _ = strings.Cut(block, ".fi\n")
			for line := range strings.Lines(strings.ReplaceAll(block, `\-`, "-")) {
				require.LessOrEqual(t, len(strings.TrimSpace(line)), manWidth+1, "%s: %s", c.Name(), line)
			}
		}
	}
}
