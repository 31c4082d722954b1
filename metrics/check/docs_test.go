package check

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func page(t *testing.T) string {
	t.Helper()
	src, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	return string(src)
}

// TestPageNamesAllMetrics: with their types and labels, those in brackets on request only; and no others.
func TestPageNamesAllMetrics(t *testing.T) {
	t.Parallel()
	plain, named := collected(t, false), collected(t, true)
	rows := regexp.MustCompile("(?m)^\\| `(fairlock_\\w+)` \\| (\\w+) \\|([^|]*)\\| [^|]+ \\|$").FindAllStringSubmatch(page(t), -1)
	seen := map[string]bool{}
	for _, row := range rows {
		name := row[1]
		require.False(t, seen[name], "%s is there twice", name)
		seen[name] = true
		m, ok := plain[name]
		require.True(t, ok, "%s is no metric", name)
		require.Equal(t, strings.ToLower(m.kind.String()), row[2], name)
		var labels []string
		for label := range named[name].labels {
			if _, always := m.labels[label]; !always {
				label = "(" + label + ")"
			}
			labels = append(labels, label)
		}
		slices.Sort(labels)
		got := regexp.MustCompile(`[\w()]+`).FindAllString(row[3], -1)
		slices.Sort(got)
		require.Equal(t, labels, got, name)
	}
	for name := range plain {
		require.True(t, seen[name], "%s is not in the page", name)
	}
}

// TestPageHasARunbook: for each alert there is a section by its name, and for no other.
func TestPageHasARunbook(t *testing.T) {
	t.Parallel()
	var want []string
	for _, r := range rules(t) {
		want = append(want, r.Alert)
	}
	var got []string
	for _, h := range regexp.MustCompile(`(?m)^### (Fairlock\w+)$`).FindAllStringSubmatch(page(t), -1) {
		got = append(got, h[1])
	}
	require.Equal(t, want, got)
}

// TestPageCode: its Go is in an example, but for its indentation, and so compiles.
func TestPageCode(t *testing.T) {
	t.Parallel()
	indent := regexp.MustCompile(`(?m)^\t+`)
	var code strings.Builder
	files, err := filepath.Glob("../*/example_test.go")
	require.NoError(t, err)
	for _, file := range files {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		code.Write(indent.ReplaceAll(src, nil))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page(t), -1)
	require.Len(t, blocks, 3)
	for _, block := range blocks {
		require.Contains(t, code.String(), indent.ReplaceAllString(block[1], ""))
	}
}
