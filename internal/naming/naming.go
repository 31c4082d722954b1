// Package naming has the rules of names that users choose for what MongoDB keeps. Those of locks are in package queue.
package naming

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Database is the rule that a database's name breaks, "" if none. The server has it but for the last part: of its own databases one is
// not replicated and none has change streams.
func Database(name string) string {
	if name == "" || len(name) > 63 || !utf8.ValidString(name) || strings.ContainsAny(name, "/\\. \"$\x00") ||
		slices.Contains([]string{"admin", "config", "local"}, name) {
		return `must be 1 to 63 bytes of valid UTF-8 without / \ . " $, space and NUL, and not admin, config or local`
	}
	return ""
}

// Prefix is the rule that the beginning of collections' names breaks, "" if none.
func Prefix(s string) string {
	if len(s) > 100 || !utf8.ValidString(s) || strings.ContainsAny(s, "$\x00") || strings.HasPrefix(s, "system.") || strings.HasPrefix(s, ".") {
		return "must be at most 100 bytes of valid UTF-8 without $ and NUL, not starting with . or system."
	}
	return ""
}
