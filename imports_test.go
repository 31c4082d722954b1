package fairlock

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImports: the core imports the driver, ulid, x/sync and the standard library only, and imports point one way.
func TestImports(t *testing.T) {
	t.Parallel()
	const self = "github.com/fairlock/fairlock/"
	outside := []string{"go.mongodb.org/mongo-driver/v2/", "github.com/oklog/ulid/v2", "golang.org/x/sync/"}
	inside := map[string][]string{
		".":               {"queue", "waiter", "reaper", "internal/clock", "internal/parts", "internal/chance", "internal/naming"},
		"internal/parts":  {"queue", "waiter", "reaper", "internal/clock"},
		"queue":           {},
		"waiter":          {"queue", "internal/clock", "internal/chance"},
		"reaper":          {"queue", "internal/clock", "internal/chance"},
		"internal/clock":  {},
		"internal/chance": {},
		"internal/naming": {},
		"gateway":         {".", "internal/tally"},
		"internal/tally":  {"."},
	}
	for dir, ours := range inside {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			src, err := os.ReadFile(file)
			require.NoError(t, err)
			f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ImportsOnly)
			require.NoError(t, err)
			for _, imp := range f.Imports {
				path, err := strconv.Unquote(imp.Path.Value)
				require.NoError(t, err)
				first, _, _ := strings.Cut(path, "/")
				if path+"/" == self {
					require.Contains(t, ours, ".", file)
					continue
				}
				if pkg, ok := strings.CutPrefix(path, self); ok {
					require.Contains(t, ours, pkg, file)
				} else if strings.Contains(first, ".") {
					allowed := false
					for _, o := range outside[:map[bool]int{true: 0, false: len(outside)}[dir == "gateway"]] {
						allowed = allowed || strings.HasPrefix(path, o)
					}
					require.True(t, allowed, "%s imports %s", file, path)
				}
			}
		}
	}
}
