package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/integration/faults"
)

// TestTheTableOfThePage: the table in docs/reliability.md is that of the results which are kept, and all rows are in it (elsewhere than on
// Linux there are fewer). After adding results:
//
//	go run ./cmd/soak -runs 0 -resume FILE
func TestTheTableOfThePage(t *testing.T) {
	files, err := filepath.Glob("../../results/*.jsonl")
	require.NoError(t, err)
	var results []faults.Result
	for _, f := range files {
		of, err := faults.ReadResults(f)
		require.NoError(t, err)
		results = append(results, of...)
	}
	rows := append(faults.Rows(), moreRows()...)
	for _, r := range rows {
		require.True(t, slices.ContainsFunc(results, func(of faults.Result) bool { return of.Row == r.Name && of.Void == "" }), "no result of %s is kept", r.Name)
	}
	page, err := os.ReadFile("../../../../docs/reliability.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(page), "<!-- faults:begin -->\n")
	require.True(t, found)
	table, _, found := strings.Cut(after, "<!-- faults:end -->")
	require.True(t, found)
	require.Equal(t, faults.Table(rows, results), table)
}
