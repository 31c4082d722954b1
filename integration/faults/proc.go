package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/history"
)

// Proc is a process of the crew.
type Proc struct {
	ID   int
	crew *Crew
	cmd  *exec.Cmd
	in   *json.Encoder
	pipe io.Closer
	done chan struct{} // closed when the process was reaped and all of its reports are in

	mu       sync.Mutex // guards all below
	reports  []report
	changed  chan struct{} // closed and replaced with each report, and at the end
	expected bool          // its end is the harness's doing
	paused   bool
	exit     error
	stats    fairlock.Stats // the newest that it told
}

// labelOf is what a process of the crew is called in its session and its tickets.
func labelOf(proc int) string { return fmt.Sprintf("process %d", proc) }

// Label is what the process is called in its session and its tickets.
func (p *Proc) Label() string { return labelOf(p.ID) }

// errEnded: the process has ended and what is waited for will not come.
var errEnded = errors.New("the process has ended")

func (c *Crew) start(cfg workerConfig, wrap func(*exec.Cmd)) (*Proc, error) {
	env, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(logFile(cfg.Dir, cfg.Proc), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own copy
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), c.run.Row.Crew.Env...), workerEnv+"="+string(env))
	cmd.Stderr = log
	cmd.SysProcAttr = c.guard.Attr()
	if wrap != nil {
		wrap(cmd)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Proc{ID: cfg.Proc, crew: c, cmd: cmd, in: json.NewEncoder(stdin), pipe: stdin,
		done: make(chan struct{}), changed: make(chan struct{})}
	go p.read(stdout)
	return p, nil
}

// read takes in reports until the process ends, and reaps it.
func (p *Proc) read(stdout io.Reader) {
	defer close(p.done)
	dec := json.NewDecoder(bufio.NewReader(stdout))
	for {
		var r report
		if dec.Decode(&r) != nil {
			break
		}
		p.mu.Lock()
		p.reports = append(p.reports, r)
		if r.Op == "dying" {
			p.expected = true
		}
		if r.Op == "stats" || r.Op == "stopped" || r.Op == "closed" {
			p.stats = r.Stats
		}
		p.wakeLocked()
		p.mu.Unlock()
	}
	err := p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exit = err
	p.wakeLocked()
}

func (p *Proc) wakeLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// await returns the oldest report that match accepts, and takes it away.
func (p *Proc) await(ctx context.Context, what string, match func(report) bool) (report, error) {
	for ended := false; ; {
		p.mu.Lock()
		for i, r := range p.reports {
			if match(r) {
				p.reports = append(p.reports[:i:i], p.reports[i+1:]...)
				p.mu.Unlock()
				return r, nil
			}
		}
		changed := p.changed
		p.mu.Unlock()
		if ended {
			return report{}, fmt.Errorf("faults: process %d: waiting for %q: %w", p.ID, what, errEnded)
		}
		select {
		case <-changed:
		case <-p.done:
			ended = true // all reports are in
		case <-ctx.Done():
			return report{}, fmt.Errorf("faults: process %d: waiting for %q: %w", p.ID, what, context.Cause(ctx))
		}
	}
}

func is(op, lock string) func(report) bool {
	return func(r report) bool { return r.Op == op && r.Lock == lock }
}

func (p *Proc) tell(o order) error {
	if err := p.in.Encode(o); err != nil {
		return fmt.Errorf("faults: process %d: order %q: %w", p.ID, o.Op, err)
	}
	return nil
}

// PID is its process id.
func (p *Proc) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

func (p *Proc) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Hold makes a caller of its own take a lock and keep it, and returns the token when it has it.
func (p *Proc) Hold(ctx context.Context, lock string) (token int64, err error) {
	if err := p.tell(order{Op: "hold", Lock: lock}); err != nil {
		return 0, err
	}
	r, err := p.await(ctx, "held", is("held", lock))
	if err == nil && r.Err != "" {
		err = fmt.Errorf("faults: process %d: hold %q: %s", p.ID, lock, r.Err)
	}
	return r.Token, err
}

// Told returns when the holder made by Hold was told that it has lost the lock, and when that was.
func (p *Proc) Told(ctx context.Context, lock string) (Instant, error) {
	r, err := p.await(ctx, "told", is("told", lock))
	return r.At, err
}

// Resume makes the holder made by Hold go on and give the lock back. It returns when that is done.
func (p *Proc) Resume(ctx context.Context, lock string) error {
	if err := p.tell(order{Op: "resume", Lock: lock}); err != nil {
		return err
	}
	_, err := p.await(ctx, "resumed", is("resumed", lock))
	return err
}

// Want makes a caller of its own wait for a lock, and returns when its number was acknowledged.
func (p *Proc) Want(ctx context.Context, lock string) error {
	was := p.crew.run.arrivals(p.ID, lock)
	if err := p.tell(order{Op: "want", Lock: lock}); err != nil {
		return err
	}
	return p.crew.run.until(ctx, fmt.Sprintf("an arrival of process %d at %q", p.ID, lock), func() bool {
		return p.crew.run.arrivals(p.ID, lock) > was
	})
}

// Die makes it kill itself at a point, and returns the lock and the time at which it did.
func (p *Proc) Die(ctx context.Context, at Point) (lock string, when Instant, err error) {
	if err := p.tell(order{Op: "die", Point: at}); err != nil {
		return "", 0, err
	}
	r, err := p.await(ctx, "dying", func(r report) bool { return r.Op == "dying" })
	if err != nil {
		return "", 0, err
	}
	<-p.done
	return r.Lock, r.At, nil
}

// Kill kills it, paused or not, and returns when it is gone. The time is that before the signal.
func (p *Proc) Kill() Instant {
	p.mu.Lock()
	p.expected = true
	p.mu.Unlock()
	at := clock.System.Now()
	p.crew.rec.Record(history.Event{Kind: history.Killed, At: at, Proc: p.ID})
	_ = p.cmd.Process.Kill()
	<-p.done
	return at
}

// Pause stops it (SIGSTOP). The time is that after the signal.
func (p *Proc) Pause() (Instant, error) {
	err := p.signal(syscall.SIGSTOP, true)
	return clock.System.Now(), err
}

// Continue undoes Pause. The time is that before the signal.
func (p *Proc) Continue() (Instant, error) {
	at := clock.System.Now()
	return at, p.signal(syscall.SIGCONT, false)
}

func (p *Proc) signal(s syscall.Signal, paused bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = paused
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("faults: process %d: %v: %w", p.ID, s, err)
	}
	return nil
}

// Stats asks for the manager's counters.
func (p *Proc) Stats(ctx context.Context) (fairlock.Stats, error) {
	if err := p.tell(order{Op: "stats"}); err != nil {
		return fairlock.Stats{}, err
	}
	r, err := p.await(ctx, "stats", func(r report) bool { return r.Op == "stats" })
	return r.Stats, err
}
