package fairlock

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGuarantees keeps docs/guarantees.md honest: each test that it names is there, and each row of the fault table; and no promise or failure is without one.
func TestGuarantees(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/guarantees.md")
	require.NoError(t, err)
	known := map[string]bool{}
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			for _, name := range testsIn(t, path) {
				known[name] = true
			}
		}
		return err
	})
	require.NoError(t, err)
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(named), 50)
	for _, m := range named {
		require.True(t, known[m[1]], "no %s", m[1])
	}

	faults, err := os.ReadFile("docs/reliability.md")
	require.NoError(t, err)
	var rows []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z0-9-]+) \| \d`).FindAllStringSubmatch(string(faults), -1) {
		rows = append(rows, m[1])
	}
	require.Greater(t, len(rows), 30)
	for _, list := range regexp.MustCompile("rows? (`[a-z0-9-]+`(?:, `[a-z0-9-]+`)*)").FindAllStringSubmatch(string(page), -1) {
		for name := range strings.SplitSeq(list[1], ", ") {
			require.True(t, slices.Contains(rows, strings.Trim(name, "`")), "no row %s", name)
		}
	}

	for _, section := range []string{"## What is promised", "## What happens at each failure"} {
		_, rest, found := strings.Cut(string(page), section)
		require.True(t, found, section)
		rest, _, _ = strings.Cut(rest, "\n## ")
		lines := regexp.MustCompile(`(?m)^\| [^-\n].*\|$`).FindAllString(rest, -1)
		require.Greater(t, len(lines), 10)
		for _, line := range lines[1:] {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			require.Regexp(t, "`Test|row", cells[len(cells)-1], line)
		}
	}
}
