package integration

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
	cmd := exec.Command(bin)
	cmd.Env = append(os.Environ(), "FAIRLOCK_URI="+sharedURI)
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `^held with token \d+ - lost\? false\ngiven back: true\n$`, string(out))
	_ = b.db.Client().Database("fairlock_quickstart").Drop(withLimit(t))
}
