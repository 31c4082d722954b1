package mutants

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root = "../.."

// TestListAppliesToTheTree: each mutant is the fault that it says it is, in the source of today. Who changes a line that a mutant
// edits changes the mutant with it.
func TestListAppliesToTheTree(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{}
	for _, m := range All() {
		require.False(t, ids[m.ID], "id %s is there twice", m.ID)
		ids[m.ID] = true
		require.NotContains(t, m.ID+m.Fault+m.Breaks, "|", m.ID)
		for _, s := range []string{m.ID, m.File, m.Fault, m.Breaks, m.Catch.Pkg, m.Catch.Test} {
			require.NotEmpty(t, s, m.ID)
		}
		require.False(t, strings.HasSuffix(m.File, "_test.go"), m.ID)
		_, err := m.applyIn(root)
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, len(ids), 40)
}

// TestCatchersExist: a pattern that matches nothing would let every mutant survive, and say that the test is at fault.
func TestCatchersExist(t *testing.T) {
	t.Parallel()
	there := map[string]map[string]bool{}
	for _, m := range All() {
		if there[m.Catch.Pkg] == nil {
			there[m.Catch.Pkg] = testsIn(t, m.Catch.Pkg)
		}
		require.True(t, there[m.Catch.Pkg][m.Catch.top()], "%s: no %s", m.ID, m.Catch.Name())
	}
}

func testsIn(t *testing.T, pkg string) map[string]bool {
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*_test.go"))
	require.NoError(t, err)
	tests := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				tests[fn.Name.Name] = true
			}
		}
	}
	return tests
}

// TestDocsHaveTheList: docs/testing.md shows the table of this list and no other.
func TestDocsHaveTheList(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "testing.md"))
	require.NoError(t, err)
	have, err := Listed(page)
	require.NoError(t, err)
	var want []string
	for _, m := range All() {
		want = append(want, row(&m))
	}
	require.Equal(t, want, have, `run make mutants MUTANTFLAGS="-write docs/testing.md"`)
}
