package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/measure"
)

// NoteKind is what a note is about, for machines.
type NoteKind string

const (
	NoteStart      NoteKind = "start"
	NoteFloor      NoteKind = "floor"
	NoteKillHolder NoteKind = "kill holder"
	NoteKillWaiter NoteKind = "kill waiter"
	NoteHire       NoteKind = "replacement"
	NoteMiss       NoteKind = "miss"
	NoteRepair     NoteKind = "repair"
	NoteLost       NoteKind = "lost"
	NoteStepDown   NoteKind = "step-down"
	NoteKeep       NoteKind = "kept"
)

// Note is something that happened.
type Note struct {
	At     time.Duration // since the start of the run
	Kind   NoteKind
	Text   string
	Worker int // 0: none
	PID    int
}

// Status is where the run is.
type Status struct {
	At          time.Duration
	Rows, Total int64
	Grants      int
	Waiting     int
	Doing       string             // what is being done to the run
	Queue       *fairlock.LockInfo // as last read from the database; nil before
}

// View shows a run. All calls come from one goroutine.
type View interface {
	Note(Note)
	Status(Status)
	Summary(*Summary)
	// Live is true when the queue itself is shown, and so has to be read often.
	Live() bool
	// End is called when nothing more will be shown.
	End()
}

const (
	red, green, bold = "31", "32", "1"
)

// noPaint is the paint of places without colours.
func noPaint(_, s string) string { return s }

// Plain shows a run in lines, for files and pipes.
type Plain struct {
	w    io.Writer
	last time.Duration // of the newest status
}

// NewPlain returns a view for a place that is no terminal.
func NewPlain(w io.Writer) *Plain { return &Plain{w: w} }

// Note implements [View].
func (p *Plain) Note(n Note) { _, _ = fmt.Fprintf(p.w, "%6.1fs  %s\n", n.At.Seconds(), n.Text) }

const plainPause = 2 * time.Second

// Status implements [View].
func (p *Plain) Status(s Status) {
	if s.At-p.last < plainPause {
		return
	}
	p.last = s.At
	_, _ = fmt.Fprintf(p.w, "%6.1fs  %d of %d invoices, %d acquisitions, %d waiting\n", s.At.Seconds(), s.Rows, s.Total, s.Grants, s.Waiting)
}

// Summary implements [View].
func (p *Plain) Summary(s *Summary) { s.text(p.w, noPaint) }

// Live implements [View].
func (p *Plain) Live() bool { return false }

// End implements [View].
func (p *Plain) End() {}

// JSON shows a run as one object a line: type is note, status or summary. The summary comes last.
type JSON struct {
	enc  *json.Encoder
	last time.Duration
}

// NewJSON returns a view for machines.
func NewJSON(w io.Writer) *JSON { return &JSON{enc: json.NewEncoder(w)} }

// Note implements [View].
func (j *JSON) Note(n Note) {
	_ = j.enc.Encode(struct {
		Type   string   `json:"type"`
		At     Millis   `json:"atMs"`
		Kind   NoteKind `json:"kind"`
		Text   string   `json:"text"`
		Worker int      `json:"worker,omitempty"`
		PID    int      `json:"pid,omitempty"`
	}{"note", measure.InMillis(n.At), n.Kind, n.Text, n.Worker, n.PID})
}

const jsonPause = time.Second

// Status implements [View].
func (j *JSON) Status(s Status) {
	if s.At-j.last < jsonPause {
		return
	}
	j.last = s.At
	_ = j.enc.Encode(struct {
		Type    string             `json:"type"`
		At      Millis             `json:"atMs"`
		Rows    int64              `json:"rows"`
		Total   int64              `json:"total"`
		Grants  int                `json:"grants"`
		Waiting int                `json:"waiting"`
		Queue   *fairlock.LockInfo `json:"queue,omitempty"`
	}{"status", measure.InMillis(s.At), s.Rows, s.Total, s.Grants, s.Waiting, s.Queue})
}

// Summary implements [View].
func (j *JSON) Summary(s *Summary) {
	_ = j.enc.Encode(struct {
		Type string `json:"type"`
		*Summary
	}{"summary", s})
}

// Live implements [View].
func (j *JSON) Live() bool { return false }

// End implements [View].
func (j *JSON) End() {}
