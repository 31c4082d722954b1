package faults

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"os/exec"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/guard"
	"github.com/fairlock/fairlock/internal/history"
)

// Crew is the processes of a run.
type Crew struct {
	run   *Run
	guard *guard.Guard
	rec   *history.Lines // what the harness does to processes
	file  *os.File

	mu    sync.Mutex // guards procs
	procs []*Proc    // all that were ever started, in the order of their ids
}

// harness is the process number of the run itself.
const harness = 0

func newCrew(r *Run) (*Crew, error) {
	f, err := os.OpenFile(eventsFile(r.Dir, harness), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	g, err := guard.Start()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &Crew{run: r, guard: g, rec: history.NewLines(f), file: f}, nil
}

// Hire starts one more process. Its callers begin at once.
func (c *Crew) Hire(ctx context.Context) (*Proc, error) {
	p, err := c.hire(ctx)
	if err != nil {
		return nil, err
	}
	return p, p.tell(order{Op: "begin"})
}

func (c *Crew) hire(ctx context.Context) (*Proc, error) {
	r, o := c.run, c.run.Row.Crew
	c.mu.Lock()
	id := len(c.procs) + 1
	uri := r.Deployment.URI()
	if o.URI != nil {
		uri = o.URI(r, id)
	}
	data := uri
	if o.RegisterURI != nil {
		data = o.RegisterURI(r, id)
	}
	cfg := workerConfig{
		Proc: id, URI: withParams(uri, o.Params), RegisterURI: data, DB: r.DB.Name(), RegisterDB: r.registerDB(),
		TTL: o.TTL, TicketDelay: o.TicketDelay, OpTimeout: o.OpTimeout,
		Callers: o.Callers, Try: o.Try, Cancel: o.Cancel, Hold: o.Hold, Think: o.Think,
		Workload: o.Workload, Locks: r.locks(), Seed: r.Seed, Dir: r.Dir,
	}
	var wrap func(*exec.Cmd)
	if o.Wrap != nil {
		wrap = func(cmd *exec.Cmd) { o.Wrap(r, id, cmd) }
	}
	p, err := c.start(cfg, wrap)
	if err == nil {
		c.procs = append(c.procs, p)
	}
	c.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("faults: start process %d: %w", id, err)
	}
	_, err = p.await(ctx, "ready", func(r report) bool { return r.Op == "ready" })
	return p, err
}

// All are all that were ever started, in the order of their ids.
func (c *Crew) All() []*Proc {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Proc(nil), c.procs...)
}

// Alive are those that have not ended.
func (c *Crew) Alive() []*Proc {
	var alive []*Proc
	for _, p := range c.All() {
		if p.alive() {
			alive = append(alive, p)
		}
	}
	return alive
}

// Pick chooses n different ones of those that are alive, by the run's seed.
func (c *Crew) Pick(n int) []*Proc {
	alive := c.Alive()
	c.run.Rand.Shuffle(len(alive), func(i, j int) { alive[i], alive[j] = alive[j], alive[i] })
	return alive[:min(n, len(alive))]
}

// farewell is how long callers may take to come to their end, beyond a lease and the register's limit.
const farewell = 20 * time.Second

// stop makes all callers come to their end. Whoever does not is stranded: its goroutines are then in its log.
func (c *Crew) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.run.ttl()+registerLimit+farewell)
	defer cancel()
	var g errgroup.Group
	for _, p := range c.Alive() {
		if p.tell(order{Op: "stop"}) != nil {
			continue // it has ended; its end is judged
		}
		g.Go(func() error {
			if _, err := p.await(ctx, "stopped", func(r report) bool { return r.Op == "stopped" }); err != nil && p.alive() {
				c.run.Violate("%s: process %d has callers that do not come to their end; see %s", history.Stranded, p.ID, logFile(c.run.Dir, p.ID))
				p.mu.Lock()
				p.expected = true
				p.mu.Unlock()
				_ = p.cmd.Process.Signal(syscall.SIGQUIT)
				<-p.done
			}
			return nil
		})
	}
	_ = g.Wait()
}

// close ends all processes in order and returns the sum of what they did.
func (c *Crew) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit+farewell)
	defer cancel()
	var g errgroup.Group
	for _, p := range c.Alive() {
		if p.tell(order{Op: "close"}) != nil {
			continue
		}
		g.Go(func() error {
			r, err := p.await(ctx, "closed", func(r report) bool { return r.Op == "closed" })
			switch {
			case err != nil && p.alive():
				c.run.Violate("process %d does not close: %v", p.ID, err)
				_ = p.cmd.Process.Signal(syscall.SIGQUIT)
			case err == nil && r.Err != "":
				c.run.Violate("process %d: Close: %s", p.ID, r.Err)
			}
			<-p.done
			return nil
		})
	}
	_ = g.Wait()
	for _, p := range c.All() {
		p.mu.Lock()
		for _, b := range p.reports {
			if b.Op == "broken" {
				c.run.Violate("process %d: lock %q: %s", p.ID, b.Lock, b.Err)
			}
		}
		bad := p.exit != nil && !p.expected
		exit := p.exit
		p.mu.Unlock()
		if bad {
			c.run.Violate("process %d ended by itself: %v\n%s", p.ID, exit, tailOf(logFile(c.run.Dir, p.ID), 30))
		}
	}
}

// end leaves no process behind, whatever happened before.
func (c *Crew) end() {
	for _, p := range c.All() {
		_ = p.cmd.Process.Kill()
		<-p.done
		_ = p.pipe.Close()
	}
	c.guard.Release()
	<-c.guard.Done()
	_ = c.file.Close()
}

// stats is what all processes together have told of themselves. Killed ones tell little.
func (c *Crew) stats() (sum fairlock.Stats, killed int) {
	for _, p := range c.All() {
		p.mu.Lock()
		s := p.stats
		if p.exit != nil {
			killed++
		}
		p.mu.Unlock()
		sum.Grants += s.Grants
		sum.Lost += s.Lost
		sum.Requeued += s.Requeued
		sum.GrantsByRecheck += s.GrantsByRecheck
		sum.StreamsOpened += s.StreamsOpened
		sum.StreamsFailed += s.StreamsFailed
		sum.SessionsEnded += s.SessionsEnded
		sum.OrphansBuried += s.OrphansBuried
		sum.TicketsCleared += s.TicketsCleared
	}
	return sum, killed
}

func (r *Run) locks() []string {
	names := make([]string, r.Row.Crew.Locks)
	for i := range names {
		names[i] = "l" + strconv.Itoa(i)
	}
	return names
}

func withParams(uri, params string) string {
	switch {
	case params == "":
		return uri
	case strings.Contains(uri, "?"):
		return uri + "&" + params
	}
	return strings.TrimSuffix(uri, "/") + "/?" + params
}

// tailOf is the last lines of a file.
func tailOf(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
