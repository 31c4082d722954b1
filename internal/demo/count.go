package demo

import (
	"context"
	"maps"
	"strings"
	"sync"

	mongoevent "go.mongodb.org/mongo-driver/v2/event"
)

// counter counts a client's commands by collection and name, so that reads and writes per acquisition are what went
// to the server and not what somebody thinks went there. Repeats by the driver count.
type counter struct {
	prefix string

	mu sync.Mutex // guards n
	n  map[string]int64
}

func newCounter(prefix string) *counter { return &counter{prefix: prefix, n: map[string]int64{}} }

func (c *counter) monitor() *mongoevent.CommandMonitor {
	return &mongoevent.CommandMonitor{Started: func(_ context.Context, e *mongoevent.CommandStartedEvent) {
		field := e.CommandName
		if field == "getMore" {
			field = "collection"
		}
		coll, ok := e.Command.Lookup(field).StringValueOK()
		if !ok || !strings.HasPrefix(coll, c.prefix) {
			return // of no collection of ours: hello, endSessions
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n[strings.TrimPrefix(coll, c.prefix)+"."+e.CommandName]++
	}}
}

func (c *counter) snapshot() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

// Traffic is commands sent to the server, by what they are for.
type Traffic struct {
	LockWrites   int64 `json:"lockWrites"`
	LockReads    int64 `json:"lockReads"`
	StreamReads  int64 `json:"streamReads"` // getMore on change streams
	LedgerWrites int64 `json:"ledgerWrites"`
	LedgerReads  int64 `json:"ledgerReads"`
}

func (t *Traffic) add(commands map[string]int64) {
	for key, n := range commands {
		coll, name, _ := strings.Cut(key, ".")
		write := name == "insert" || name == "update" || name == "delete" || name == "findAndModify"
		own := coll == "ledger" || coll == "head"
		switch {
		case own && write:
			t.LedgerWrites += n
		case own:
			t.LedgerReads += n
		case name == "getMore":
			t.StreamReads += n
		case write:
			t.LockWrites += n
		default:
			t.LockReads += n
		}
	}
}
