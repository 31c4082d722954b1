package demo

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock"
)

// Live shows a run on a terminal: a picture of the queue that is drawn over itself, with the newest notes below.
type Live struct {
	w     io.Writer
	size  func() (width, height int)
	color bool
	drawn int // lines of the picture on the screen
	notes []string
	last  Status
	prev  Status // about a second before last, for the rate
}

// NewLive returns a view for a terminal of the size that size tells, at any time.
func NewLive(w io.Writer, size func() (width, height int), color bool) *Live {
	return &Live{w: w, size: size, color: color}
}

const (
	liveNotes = 8
	// A picture as high as the screen would scroll, and could not be drawn over.
	liveMargin = 2
)

// Note implements [View].
func (l *Live) Note(n Note) {
	l.notes = append(l.notes, fmt.Sprintf("%6.1fs  %s", n.At.Seconds(), n.Text))
	l.draw()
}

// Status implements [View].
func (l *Live) Status(s Status) {
	if s.At-l.prev.At >= time.Second {
		l.prev = l.last
	}
	l.last = s
	l.draw()
}

// Summary implements [View]. The picture goes, its notes stay.
func (l *Live) Summary(s *Summary) {
	l.wipe()
	for _, n := range l.notes {
		_, _ = fmt.Fprintln(l.w, n)
	}
	s.text(l.w, l.paint)
}

// Live implements [View].
func (l *Live) Live() bool { return true }

// End implements [View]. The cursor is below the picture at any time, so there is nothing to put right.
func (l *Live) End() {}

func (l *Live) paint(color, s string) string {
	if !l.color {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

// wipe takes the picture off the screen.
func (l *Live) wipe() {
	if l.drawn > 0 {
		_, _ = fmt.Fprintf(l.w, "\x1b[%dA\r\x1b[J", l.drawn)
	}
	l.drawn = 0
}

// draw draws the picture over the one before, in one write, so that it does not flicker.
func (l *Live) draw() {
	width, height := l.size()
	lines := l.picture(width, max(height-liveMargin, 4))
	var b bytes.Buffer
	if l.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", l.drawn)
	}
	for _, line := range lines {
		b.WriteString(line)
		b.WriteString("\x1b[K\n") // the rest of what stood there
	}
	b.WriteString("\x1b[J")
	_, _ = l.w.Write(b.Bytes())
	l.drawn = len(lines)
}

// picture is at most height lines of at most width columns.
func (l *Live) picture(width, height int) []string {
	s := &l.last
	notes := l.notes[max(0, len(l.notes)-liveNotes):]
	notes = notes[max(0, len(notes)-height/3):]
	var lines []string
	add := func(color, text string) {
		text = fit(text, width)
		if color != "" {
			text = l.paint(color, text)
		}
		lines = append(lines, text)
	}
	rate := 0.0
	if d := s.At - l.prev.At; d > 0 {
		rate = float64(s.Grants-l.prev.Grants) / d.Seconds()
	}
	add(bold, fmt.Sprintf("fairlock demo  %5.1fs  %d of %d invoices  %.0f acquisitions a second  %d waiting", s.At.Seconds(), s.Rows, s.Total, rate, s.Waiting))
	add("", bar(s.Rows, s.Total, min(width, 78)))
	if s.Doing != "" {
		add(red, s.Doing)
	}
	room := height - len(lines) - len(notes) - 1
	if q := s.Queue; q != nil && room > 2 {
		add(bold, fmt.Sprintf("%-7s %-18s %-14s %7s %9s %11s", "PLACE", "TOKEN", "OWNER", "PID", "AGE", "LEASE LEFT"))
		places := append(append([]fairlock.Place{}, q.Holders...), q.Waiters...)
		room--
		for i := range places {
			if room == 1 && len(places)-i > 1 {
				add("", fmt.Sprintf("        and %d more", len(places)-i))
				break
			}
			color := ""
			if places[i].Position == 0 {
				color = green
			}
			if o := places[i].Owner; o != nil && (o.Dead || o.LeaseLeft < 0) {
				color = red
			}
			add(color, placeLine(&places[i]))
			room--
		}
	}
	for _, n := range notes {
		add("", n)
	}
	return lines
}

func placeLine(p *fairlock.Place) string {
	place := "holds"
	if p.Position > 0 {
		place = fmt.Sprint(p.Position)
	}
	o := p.Owner
	if o == nil {
		return fmt.Sprintf("%-7s %-18d %s", place, p.Token, "(younger than its ticket)")
	}
	state := ""
	if o.Dead {
		state = "  dead"
	}
	return fmt.Sprintf("%-7s %-18d %-14s %7d %8.1fs %10.1fs%s", place, p.Token, o.Label, o.PID, o.Age.Seconds(), o.LeaseLeft.Seconds(), state)
}

func bar(n, of int64, width int) string {
	width = max(width-2, 1)
	full := 0
	if of > 0 {
		full = int(n * int64(width) / of)
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

// fit cuts s to width columns; control characters, which would break the picture, become dots.
func fit(s string, width int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '.'
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) > width {
		s = string([]rune(s)[:max(width, 0)])
	}
	return s
}
