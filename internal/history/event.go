package history

import (
	"encoding/json"
	"io"
	"sync"

	"github.com/fairlock/fairlock/internal/clock"
)

// Kind is what an event tells.
type Kind string

// The kinds. Times and numbers that a kind does not name are zero.
const (
	// Call: a call of Lock or TryLock, or of what else takes a lock, is about to be made. Lock, Units, Permits. A call of LockAll is one
	// of each of its names, with the same Set.
	Call Kind = "call"
	// Arrived: the database acknowledged an arrival of the process at At, of which the first attempt was sent at Sent. Lock, Lo, Hi.
	Arrived Kind = "arrived"
	// Granted: the call has returned with a lock. Lo is its token, Lo to Hi its numbers.
	Granted Kind = "granted"
	// Trusted: the holder found at At that it holds the lock, and that it will do so until Until if nothing is renewed.
	Trusted Kind = "trusted"
	// Lost: the holder was told at At that the lock is lost. Err is why.
	Lost Kind = "lost"
	// Reduced: Release is about to be called, which gives back some of the units. Units is how many.
	Reduced Kind = "reduced"
	// Released: Unlock is about to be called.
	Released Kind = "released"
	// Failed: the call has returned without a lock. Err is why.
	Failed Kind = "failed"
	// Forced: somebody is about to unlock by force, and did or may have. Lock, Lo is the token.
	Forced Kind = "forced"
	// Resized: a semaphore has other permits from here on. Lock, Permits, Lo is the first number that was not issued then.
	Resized Kind = "resized"
	// Dropped: somebody has taken the documents of all locks away, between Sent and At.
	Dropped Kind = "dropped"
	// Killed: the process has got a signal to die; At was taken before. Written by whoever sent it.
	Killed Kind = "killed"
)

// Event is one line of a history. All times are of one clock that the processes share; At is taken before what a process is
// about to do, and after what it was told, except for Trusted: there it is taken before the question.
type Event struct {
	Kind    Kind          `json:"kind"`
	At      clock.Instant `json:"at"`
	Sent    clock.Instant `json:"sent,omitempty"`
	Until   clock.Instant `json:"until,omitempty"`
	Proc    int           `json:"proc"`
	Call    int64         `json:"call,omitempty"` // of the process, unique in it
	Set     int64         `json:"set,omitempty"`  // of the process, unique in it; 0: the call is none of several
	Lock    string        `json:"lock,omitempty"`
	Units   int64         `json:"units,omitempty"`
	Permits int64         `json:"permits,omitempty"`
	Lo      int64         `json:"lo,omitempty"`
	Hi      int64         `json:"hi,omitempty"`
	Err     string        `json:"err,omitempty"`
}

// Recorder takes down events. It is safe for concurrent use.
type Recorder interface{ Record(Event) }

// Memory is a Recorder that keeps what it is told. The zero value is ready.
type Memory struct {
	mu     sync.Mutex // guards events
	events []Event
}

// Record implements [Recorder].
func (m *Memory) Record(e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, e)
}

// Events returns all events so far, in the order of recording.
func (m *Memory) Events() []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Event(nil), m.events...)
}

// Lines is a Recorder that writes each event as a line of JSON with one Write, so that a process that is killed leaves whole lines.
type Lines struct {
	mu  sync.Mutex // guards w and err
	w   io.Writer
	err error
}

// NewLines returns a recorder that writes to w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Record implements [Recorder].
func (l *Lines) Record(e Event) {
	line, err := json.Marshal(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		_, err = l.w.Write(append(line, '\n'))
	}
	if l.err == nil {
		l.err = err
	}
}

// Err is the first failure to write.
func (l *Lines) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
