package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNewcomer: who copies the lines of the README's quick start into an empty folder has a program of his own that takes a fair lock. Only what he is told to
// put in himself is put in: the address that dev has printed, and where the clone is.
func TestNewcomer(t *testing.T) {
	t.Parallel()
	b := newBedAt(t, sharedURI)
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, start, _ := strings.Cut(string(readme), "## Quick start\n")
	start, _, _ = strings.Cut(start, "\n## ")
	blocks := regexp.MustCompile("(?s)```(sh|go)\n(.*?)```").FindAllStringSubmatch(start, -1)
	require.Len(t, blocks, 4)
	clone, err := filepath.Abs("..")
	require.NoError(t, err)
	require.Equal(t, "go run ./cmd/fairlock dev\n", blocks[0][2]) // the test has servers
	setup := strings.NewReplacer("'mongodb://127.0.0.1:31000/?replicaSet=fairlock'", "'"+sharedURI+"'", "/path/to/the/clone", clone).Replace(blocks[1][2])
	require.Contains(t, setup, sharedURI)
	require.Contains(t, setup, clone)
	require.Equal(t, []string{"sh", "sh", "go", "sh"}, []string{blocks[0][1], blocks[1][1], blocks[2][1], blocks[3][1]})

	quickstart.Lock()
	defer quickstart.Unlock()
	folder := t.TempDir()
	script := setup + "cat > main.go <<'END'\n" + blocks[2][2] + "END\n" + blocks[3][2]
	cmd := exec.CommandContext(withLimit(t), "sh", "-e", "-c", script)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.Regexp(t, `^held with token \d+ - lost\? false\ngiven back: true\n$`, string(out))
	_ = b.db.Client().Database("fairlock_quickstart").Drop(withLimit(t))
}
