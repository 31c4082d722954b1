package demo

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/measure"
)

// lockName is the one lock of the demo.
const lockName = "ledger"

// config is the first line on a worker's stdin. The URI can hold a password, so it is not an argument that others could
// see in a list of processes.
type config struct {
	Worker     int           `json:"worker"`
	Goroutines int           `json:"goroutines"`
	URI        string        `json:"uri"`
	DB         string        `json:"db"`
	Prefix     string        `json:"prefix"`
	TTL        time.Duration `json:"ttl"`
	Hold       time.Duration `json:"hold"`
	Limit      int64         `json:"limit"`
	Invoices   []Invoice     `json:"invoices"`
}

// command is each further line on a worker's stdin.
type command struct {
	// Stall makes the next one who commits a row in this worker stop before the ledger row is inserted, until it is killed.
	Stall bool `json:"stall,omitempty"`
	// Limit, if above 0, is how many rows may be written.
	Limit int64 `json:"limit,omitempty"`
}

// kind is what an event is about.
type kind string

const (
	evReady   kind = "ready"   // connected, goroutines start
	evWait    kind = "wait"    // Lock is about to be called
	evGrant   kind = "grant"   // Lock has returned
	evRow     kind = "row"     // a row is committed
	evStalled kind = "stalled" // holds, on command, until killed
	evUnlock  kind = "unlock"  // Unlock is about to be called; At is a moment at which Err was nil
	evLost    kind = "lost"    // as unlock, but the lock was lost; At is the last moment at which Err was nil
	evFailed  kind = "failed"  // Lock returned an error
	evCounts  kind = "counts"  // what the process has done so far
	evFatal   kind = "fatal"   // the worker ends, and should not
	evCorrupt kind = "corrupt" // likewise, since the ledger is in a state that no holder leaves behind
)

// event is one line on a worker's stdout. At is a stamp.
type event struct {
	Kind      kind    `json:"k"`
	Goroutine int     `json:"g,omitempty"`
	At        int64   `json:"at"`
	Token     int64   `json:"t,omitempty"`
	N         int64   `json:"n,omitempty"`
	Repaired  int64   `json:"rep,omitempty"`
	Refused   []int64 `json:"ref,omitempty"`
	Text      string  `json:"text,omitempty"`
	Counts    *counts `json:"counts,omitempty"`
}

// counts is what one process has done.
type counts struct {
	Commands map[string]int64 `json:"commands"` // by "collection.command"
	Stats    fairlock.Stats   `json:"stats"`
}

// lineWriter writes events. All of an event is in the pipe when emit returns: what a killed worker has said is not lost
// with it.
type lineWriter struct {
	mu  sync.Mutex // makes lines whole
	enc *json.Encoder
}

func newLineWriter(w io.Writer) *lineWriter { return &lineWriter{enc: json.NewEncoder(w)} }

// emit writes one event. That the parent has gone is found by reading stdin.
func (w *lineWriter) emit(e event) {
	if e.At == 0 {
		e.At = measure.Stamp()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.enc.Encode(e)
}
