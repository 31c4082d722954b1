package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// quickstart is taken by who runs the README's program, whose database is always the same and goes at the end.
var quickstart sync.Mutex

// TestReadmeProgram: the program in the README is the one in examples, and does what it says.
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	code, err := os.ReadFile("../examples/quickstart/main.go")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	require.NotNil(t, block)
	require.Equal(t, string(code), string(block[1]))
	require.LessOrEqual(t, strings.Count(string(code), "\n"), 35)

	b := newBedAt(t, sharedURI)
	bin := t.TempDir() + "/quickstart"
	out, err := exec.Command("go", "build", "-o", bin, "../examples/quickstart").CombinedOutput()
	require.NoError(t, err, "%s", out)
	quickstart.Lock()
	defer quickstart.Unlock()
	cmd := exec.Command(bin)
	cmd.Env = append(os.Environ(), "FAIRLOCK_URI="+sharedURI)
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `^held with token \d+ - lost\? false\ngiven back: true\n$`, string(out))
	_ = b.db.Client().Database("fairlock_quickstart").Drop(withLimit(t))
}

// TestGuides: each block of Go in the guides is a part of an example, but for its indentation, and so compiles and is run; and the README leads
// to each guide. (docs/fairlocktest.md: package fairlocktest.)
func TestGuides(t *testing.T) {
	t.Parallel()
	indent := regexp.MustCompile(`(?m)^\t+`)
	examples, err := filepath.Glob("../example_*_test.go")
	require.NoError(t, err)
	var code strings.Builder
	for _, file := range append(examples, "../fence/example_test.go") {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		code.Write(indent.ReplaceAll(src, nil))
	}
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	for _, name := range []string{"mutex", "semaphore", "rwlock", "lockall", "election", "fence", "admin"} {
		page, err := os.ReadFile("../docs/" + name + ".md")
		require.NoError(t, err)
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(page, -1)
		require.NotEmpty(t, blocks, name)
		for _, block := range blocks {
			require.Contains(t, code.String(), indent.ReplaceAllString(string(block[1]), ""), name)
		}
		require.Contains(t, string(readme), "(docs/"+name+".md)")
	}
}

// TestLinks: what the pages link to is there.
func TestLinks(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range link.FindAllSubmatch(text, -1) {
			to, _, _ := strings.Cut(string(m[1]), "#")
			if to == "" || strings.Contains(to, "://") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(page), to))
			require.NoError(t, err, page)
		}
	}
}
