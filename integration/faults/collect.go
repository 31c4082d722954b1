package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/history"
)

// collector reads the histories while they are written.
type collector struct {
	dir string

	mu      sync.Mutex // guards all below
	files   map[string]*os.File
	rest    map[string][]byte // the beginning of a line that is not whole yet
	events  []history.Event
	grants  []history.Event
	arrived map[place]int
	sentAt  map[string][]history.Event // arrivals of each lock, by their numbers
}

// place is a process at a lock.
type place struct {
	proc int
	lock string
}

func newCollector(dir string) *collector {
	return &collector{dir: dir, files: map[string]*os.File{}, rest: map[string][]byte{}, arrived: map[place]int{}, sentAt: map[string][]history.Event{}}
}

// read takes in what was written since the last time.
func (c *collector) read() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	names, err := filepath.Glob(filepath.Join(c.dir, "events-*.jsonl"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.readLocked(name); err != nil {
			return fmt.Errorf("faults: %s: %w", name, err)
		}
	}
	return nil
}

func (c *collector) readLocked(name string) error {
	f := c.files[name]
	if f == nil {
		var err error
		if f, err = os.Open(name); err != nil {
			return err
		}
		c.files[name] = f
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	text = append(c.rest[name], text...)
	for {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			c.rest[name] = bytes.Clone(text)
			return nil
		}
		var e history.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		c.takeLocked(e)
		text = rest
	}
}

func (c *collector) takeLocked(e history.Event) {
	c.events = append(c.events, e)
	switch e.Kind {
	case history.Granted:
		c.grants = append(c.grants, e)
	case history.Arrived:
		c.arrived[place{e.Proc, e.Lock}]++
		all := c.sentAt[e.Lock]
		at, _ := arrivalOf(all, e.Lo)
		c.sentAt[e.Lock] = slices.Insert(all, at, e)
	}
}

// arrivalOf is where an arrival with a number is, or would be, among those that are sorted by it.
func arrivalOf(all []history.Event, number int64) (at int, found bool) {
	at = sort.Search(len(all), func(i int) bool { return all[i].Hi >= number })
	return at, at < len(all) && all[at].Lo <= number
}

func (c *collector) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.files {
		_ = f.Close()
	}
	c.files = map[string]*os.File{}
}

// all are the events so far.
func (c *collector) all() []history.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]history.Event(nil), c.events...)
}

// recovered is the first grant that proves recovery of a mark.
func (c *collector) recovered(m Mark) (at Instant, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.grants {
		if e.At < m.In || m.Lock != "" && e.Lock != m.Lock || found && e.At >= at {
			continue
		}
		var from history.Event
		if i, known := arrivalOf(c.sentAt[e.Lock], e.Lo); known {
			from = c.sentAt[e.Lock][i]
		}
		if m.Fresh == Sent && from.Sent < m.In || m.Fresh == Acked && from.At < m.In {
			continue
		}
		at, found = e.At, true
	}
	return at, found
}

// rate is grants a second in an interval.
func (c *collector) rate(from, to Instant) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, e := range c.grants {
		if e.At >= from && e.At < to {
			n++
		}
	}
	return float64(n) / to.Sub(from).Seconds()
}

// readPause is the pace at which histories are read: a file tells nobody that it has grown.
const readPause = 50 * time.Millisecond

// until returns when cond holds, which is asked after each look at the histories.
func (r *Run) until(ctx context.Context, what string, cond func() bool) error {
	tick := time.NewTicker(readPause)
	defer tick.Stop()
	for {
		if err := r.history.read(); err != nil {
			return err
		}
		if cond() {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("faults: waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}

func (r *Run) arrivals(proc int, lock string) int {
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	return r.history.arrived[place{proc, lock}]
}
