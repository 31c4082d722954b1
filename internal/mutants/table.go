package mutants

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The table stands between these lines.
const (
	beginMark = "<!-- mutants: begin, written by cmd/mutants -write -->\n"
	endMark   = "<!-- mutants: end -->\n"
)

// ErrNoMarkers: the page has no place for the table.
var ErrNoMarkers = errors.New("page has no markers for the table of mutants")

// Table is the results as they stand in docs/testing.md.
func Table(results []Result, at time.Time, took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d mutants, all caught, in %v, on %s.\n\n", len(results), took.Round(time.Second), at.UTC().Format("2 January 2006"))
	b.WriteString("| mutant | file | the fault | what it breaks | caught by | after |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, r := range results {
		fmt.Fprintf(&b, "%s %.2f s |\n", row(&r.Mutant), r.Took.Seconds())
	}
	return b.String()
}

// row is a mutant's line without the time.
func row(m *Mutant) string {
	return fmt.Sprintf("| %s | %s | %s | %s | `%s` |", m.ID, m.File, m.Fault, m.Breaks, m.Catch.Name())
}

// Rewrite puts a table between the markers of a page.
func Rewrite(page []byte, table string) ([]byte, error) {
	before, after, err := around(page)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{before, []byte(beginMark), []byte(table), []byte(endMark), after}, nil), nil
}

func around(page []byte) (before, after []byte, err error) {
	before, rest, ok := bytes.Cut(page, []byte(beginMark))
	if !ok {
		return nil, nil, ErrNoMarkers
	}
	_, after, ok = bytes.Cut(rest, []byte(endMark))
	if !ok {
		return nil, nil, ErrNoMarkers
	}
	return before, after, nil
}

// Listed is the rows of the table that stands in a page, without their times.
func Listed(page []byte) ([]string, error) {
	before, after, err := around(page)
	if err != nil {
		return nil, err
	}
	var rows []string
	for line := range strings.Lines(string(page[len(before) : len(page)-len(after)])) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| ---") && !strings.HasPrefix(line, "| mutant ") {
			cells := strings.Split(strings.TrimSpace(line), " | ")
			rows = append(rows, strings.Join(cells[:len(cells)-1], " | ")+" |")
		}
	}
	return rows, nil
}
