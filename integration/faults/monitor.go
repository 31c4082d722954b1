package faults

import (
	"context"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/history"
)

// watch is the command monitor of fairlock's client: it takes down arrivals as the server answered them, and comes by the points at
// which the process may have to kill itself.
type watch struct {
	proc  int
	rec   history.Recorder
	point func(Point, string) // kills the process if that was ordered

	mu   sync.Mutex // guards all below
	sent map[int64]Instant
	seen map[int64]bool
	open map[int64]command // by request
}

// command is one that is on its way.
type command struct {
	kind Point // AfterNumber, AfterTicket or AfterSettle
	lock string
	ask  asked
}

func newWatch(proc int, rec history.Recorder, point func(Point, string)) *watch {
	return &watch{proc: proc, rec: rec, point: point,
		sent: map[int64]Instant{}, seen: map[int64]bool{}, open: map[int64]command{}}
}

func (w *watch) monitor() *event.CommandMonitor {
	drop := func(id int64) (command, bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		c, ok := w.open[id]
		delete(w.open, id)
		return c, ok
	}
	return &event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			now := clock.System.Now()
			c, ok := commandOf(e)
			if !ok {
				return
			}
			if c.kind == AfterSettle {
				w.point(BeforeSettle, c.lock)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if _, again := w.sent[c.ask.mark]; c.kind == AfterNumber && !again {
				w.sent[c.ask.mark] = now
			}
			w.open[e.RequestID] = c
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			c, ok := drop(e.RequestID)
			if !ok {
				return
			}
			// ok:1 with a failed write concern acknowledges nothing.
			if _, err := e.Reply.LookupErr("writeConcernError"); err == nil {
				return
			}
			if c.kind == AfterNumber && !w.arrived(c, e.Reply) {
				return
			}
			w.point(c.kind, c.lock)
		},
		Failed: func(_ context.Context, e *event.CommandFailedEvent) { drop(e.RequestID) },
	}
}

// arrived takes down an arrival if the reply shows one.
func (w *watch) arrived(c command, reply bson.Raw) bool {
	at := clock.System.Now()
	slot, err := reply.LookupErr("value", "last", c.ask.slot)
	if err != nil {
		return false
	}
	in, ok := slot.DocumentOK()
	if !ok {
		return false
	}
	mark, _ := in.Lookup("mark").AsInt64OK()
	hi, ok := in.Lookup("hi").AsInt64OK()
	if !ok || mark != c.ask.mark {
		return false // refused, or the document was of another arrival
	}
	w.mu.Lock()
	sent, again := w.sent[mark], w.seen[mark]
	w.seen[mark] = true
	w.mu.Unlock()
	if !again {
		w.rec.Record(history.Event{
			Kind: history.Arrived, At: at, Sent: sent, Proc: w.proc, Lock: c.lock, Lo: hi - c.ask.units + 1, Hi: hi,
		})
	}
	return true
}

// asked is what the command of an arrival asks for.
type asked struct {
	slot        string
	mark, units int64
}

// commandOf tells a write for one of the callers' locks from everything else; the manager's own lock has a control character in its
// name.
func commandOf(e *event.CommandStartedEvent) (c command, ok bool) {
	name, _ := e.Command.Lookup(e.CommandName).StringValueOK()
	switch {
	case e.CommandName == "findAndModify" && strings.HasSuffix(name, ".locks"):
		c.kind = AfterNumber
		c.lock, ok = e.Command.Lookup("query", "_id").StringValueOK()
		if ok {
			c.ask, ok = askedIn(e.Command)
		}
	case e.CommandName == "update" && strings.HasSuffix(name, ".locks"):
		c.kind = AfterSettle
		c.lock, ok = e.Command.Lookup("updates", "0", "q", "_id").StringValueOK()
	case e.CommandName == "update" && strings.HasSuffix(name, ".tickets"):
		c.kind = AfterTicket
		upsert, _ := e.Command.Lookup("updates", "0", "upsert").BooleanOK()
		c.lock, ok = e.Command.Lookup("updates", "0", "q", "_id", "lock").StringValueOK()
		ok = ok && upsert
	}
	return c, ok && c.lock != "" && c.lock[0] != '\t'
}

// askedIn finds mark and units in the last stage of an arrival's pipeline (queue/pipeline.go). Where the arrival is conditional they
// are in the first branch.
func askedIn(cmd bson.Raw) (a asked, ok bool) {
	stages, ok := cmd.Lookup("update").ArrayOK()
	if !ok {
		return a, false
	}
	all, err := stages.Values()
	if err != nil || len(all) == 0 {
		return a, false
	}
	last, ok := all[len(all)-1].DocumentOK()
	if !ok {
		return a, false
	}
	fields, ok := last.Lookup("$set").DocumentOK()
	if !ok {
		return a, false
	}
	elements, err := fields.Elements()
	if err != nil {
		return a, false
	}
	var okMark, okUnits bool
	for _, e := range elements {
		v, isDoc := e.Value().DocumentOK()
		if !isDoc {
			continue
		}
		if yes, err := v.LookupErr("$cond", "1"); err == nil {
			if v, isDoc = yes.DocumentOK(); !isDoc {
				continue
			}
		}
		switch key := e.Key(); {
		case key == "issued":
			a.units, okUnits = v.Lookup("$add", "1").AsInt64OK()
		case strings.HasPrefix(key, "last."):
			a.slot = strings.TrimPrefix(key, "last.")
			a.mark, okMark = v.Lookup("mark").AsInt64OK()
		}
	}
	return a, okMark && okUnits
}
