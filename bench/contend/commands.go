package contend

import (
	"context"
	"sync"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/event"
)

// locksCollection is that of fairlock's default prefix.
const locksCollection = "fairlock.locks"

// Commands is what a client of MongoDB sends, as the driver's monitor sees it: everything but the handshakes and heartbeats of
// its connections.
type Commands struct {
	// OnQueued, if it is not nil, is called when the reply to an enqueue has come. It must not be set while the client is used.
	OnQueued func()

	queued atomic.Int64 // stamp of the newest reply to an enqueue since Forget; 0: none

	mu     sync.Mutex // guards all below
	total  int64
	byName map[string]int64
	locks  int64          // writes to the locks collection
	sent   map[int64]bool // enqueues under way, by request
}

// Monitor counts for one client. An enqueue is a findAndModify of fairlock on the document of lock.
func (c *Commands) Monitor(lock string) *event.CommandMonitor {
	c.byName, c.sent = map[string]int64{}, map[int64]bool{}
	return &event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) { c.started(e, lock) },
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			if e.CommandName == "findAndModify" && c.replied(e.RequestID) {
				c.queued.Store(Stamp())
				if c.OnQueued != nil {
					c.OnQueued()
				}
			}
		},
		Failed: func(_ context.Context, e *event.CommandFailedEvent) { c.replied(e.RequestID) },
	}
}

func (c *Commands) started(e *event.CommandStartedEvent, lock string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total++
	c.byName["cmd_"+e.CommandName]++
	switch e.CommandName {
	case "findAndModify", "update", "insert", "delete":
	default:
		return
	}
	if coll, _ := e.Command.Lookup(e.CommandName).StringValueOK(); coll != locksCollection {
		return
	}
	c.locks++
	id, _ := e.Command.Lookup("query", "_id").StringValueOK()
	if e.CommandName == "findAndModify" && id == lock {
		c.sent[e.RequestID] = true
	}
}

// replied reports whether a request that is over now was an enqueue on the contended lock.
func (c *Commands) replied(request int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.sent[request]
	delete(c.sent, request)
	return was
}

// Forget begins a new acquisition, of which no reply has come.
func (c *Commands) Forget() { c.queued.Store(0) }

// Queued is the stamp of the newest reply to an enqueue since Forget, and 0 if none has come.
func (c *Commands) Queued() int64 { return c.queued.Load() }

// Totals is what was sent so far. Other has the commands by name, after "cmd_", and "writes_locks", the writes to the locks collection.
func (c *Commands) Totals() Totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := Totals{Commands: c.total, Other: map[string]int64{"writes_locks": c.locks}}
	for name, n := range c.byName {
		t.Other[name] = n
	}
	return t
}
