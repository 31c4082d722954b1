package naming

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDatabase(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "app", "日本", "a-b_c", strings.Repeat("x", 63), "locals"} {
		require.Empty(t, Database(name), name)
	}
	for _, name := range []string{"", "a b", "a.b", "a/b", `a\b`, `a"b`, "$a", "a\x00", "\xff", strings.Repeat("x", 64), "admin", "config", "local"} {
		require.NotEmpty(t, Database(name), name)
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a.", "system", strings.Repeat("x", 100)} {
		require.Empty(t, Prefix(s), s)
	}
	for _, s := range []string{"a$", "\x00", "\xff", ".a", "system.a", strings.Repeat("x", 101)} {
		require.NotEmpty(t, Prefix(s), s)
	}
}
