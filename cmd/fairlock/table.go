package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// table is columns aligned for reading. Cells are made safe to print: what other people wrote may hold anything.
type table struct {
	rows  [][]string
	color func(row, col int, cell string) string // nil: none; may only add what takes no width
}

func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = safe(cells[i])
	}
	t.rows = append(t.rows, cells)
}

func (t *table) writeTo(w io.Writer) error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for r, row := range t.rows {
		for i, cell := range row {
			pad := widths[i] - utf8.RuneCountInString(cell)
			if t.color != nil {
				cell = t.color(r, i, cell)
			}
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", pad+3))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// safe shows control and other invisible characters as escapes: a label must not move the cursor, forge a line, or
// turn the direction of the text.
func safe(s string) string {
	visible := func(r rune) bool { return unicode.IsPrint(r) && r != utf8.RuneError }
	if strings.IndexFunc(s, func(r rune) bool { return !visible(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if visible(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// colorful reports whether w is a terminal whose user has nothing against colours (no-color.org).
func colorful(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// age is a time as people say it: two units at most.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + age(-d)
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
		return strconv.Itoa(int(d.Hours())) + "h" + strconv.Itoa(int(d.Minutes())%60) + "m"
	}
	return strconv.Itoa(int(d.Hours())/24) + "d" + strconv.Itoa(int(d.Hours())%24) + "h"
}
