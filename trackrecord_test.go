package fairlock

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTrackRecord keeps docs/track-record.md honest: each report of both lists has a row, and each test that the page names is in the
// file that it names.
func TestTrackRecord(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/track-record.md")
	require.NoError(t, err)

	// A row begins with its number. What the lists do not have (the numbers were given before reports were merged) is left out here.
	rows := regexp.MustCompile(`(?m)^\| ([MP]\d+) \|`).FindAllStringSubmatch(string(page), -1)
	var got []string
	for _, r := range rows {
		got = append(got, r[1])
	}
	var want []string
	for list, of := range map[string]struct {
		n    int
		free []int
	}{
		"M": {38, []int{11, 12, 16, 18, 30, 35}},
		"P": {78, []int{6, 15, 24, 47, 54, 65}},
	} {
		for i := range of.n {
			if !slices.Contains(of.free, i+1) {
				want = append(want, list+strconv.Itoa(i+1))
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got, "one row for each report")

	// A test is named as `TestX` (file_test.go), or `TestX`, `TestY` (file_test.go).
	tests := regexp.MustCompile("(`Test\\w+`(?:, `Test\\w+`)*)(?: \\(([\\w/]+_test\\.go)\\))?").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(tests), 100)
	known := map[string][]string{}
	for _, m := range tests {
		file := m[2]
		require.NotEmpty(t, file, "%s: in which file?", m[1])
		if known[file] == nil {
			known[file] = testsIn(t, file)
		}
		for name := range strings.SplitSeq(m[1], ", ") {
			require.Contains(t, known[file], strings.Trim(name, "`"), "%s", file)
		}
	}

	// Whoever writes a scenario puts it on the page.
	files, err := filepath.Glob("scenario_*_test.go")
	require.NoError(t, err)
	more, err := filepath.Glob("integration/scenario_*_test.go")
	require.NoError(t, err)
	for _, file := range append(files, more...) {
		for _, name := range testsIn(t, file) {
			require.Contains(t, string(page), "`"+name+"`", "%s has no row", file)
		}
	}
}

// testsIn are the names of the tests in a file.
func testsIn(t *testing.T, file string) []string {
	src, err := os.ReadFile(filepath.FromSlash(file))
	require.NoError(t, err)
	f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	require.NoError(t, err)
	var names []string
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" {
			names = append(names, fn.Name.Name)
		}
	}
	return names
}
