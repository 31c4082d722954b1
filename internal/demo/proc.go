package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/fairlock/fairlock/internal/measure"
	"github.com/fairlock/fairlock/internal/tail"
)

// report is what the readers of all workers send to the goroutine of Run.
type report struct {
	from *proc
	ev   event
	end  bool  // the process is gone and has said nothing more; err is how it ended
	err  error // nil: exit status 0
}

// proc is a worker process as its parent sees it. What the parent concludes from its events is in fields that belong to the
// goroutine of Run.
type proc struct {
	id    int
	cmd   *exec.Cmd
	stdin io.WriteCloser
	tail  tail.Tail

	killedAt int64 // stamp right before SIGKILL, 0 if it was not killed
	ended    bool
	ready    bool
	fatal    string         // why it ends, if it says so
	corrupt  bool           // that is the state of the ledger
	places   map[int]*place // by goroutine
	counts   *counts        // newest
	granted  int64          // grants of which counts knows
}

// place is what one goroutine is at.
type place struct {
	waiting bool
	since   int64 // of the wait or of the grant
	hold    int   // index of its hold, while it holds; else -1
}

// startProc starts one worker. Its reports end with one that has end set.
func startProc(cmd *exec.Cmd, cfg config, sink chan<- report) (*proc, error) {
	p := &proc{id: cfg.Worker, cmd: cmd, places: map[int]*place{}}
	cmd.Stderr = &p.tail
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("demo: start worker %d: %w", p.id, err)
	}
	go func() {
		// The config goes first, here, so that a worker which does not read it delays nobody.
		_ = json.NewEncoder(p.stdin).Encode(cfg) // its fault shows as the end of the process
		dec := json.NewDecoder(stdout)
		for {
			var e event
			if dec.Decode(&e) != nil {
				break // the end, or half a line of one that was killed
			}
			sink <- report{from: p, ev: e}
		}
		_, _ = io.Copy(io.Discard, stdout)
		sink <- report{from: p, end: true, err: cmd.Wait()}
	}()
	return p, nil
}

// tell sends a command. Only after the worker has said that it is ready, for then it has read its config.
func (p *proc) tell(c command) { _ = json.NewEncoder(p.stdin).Encode(c) }

// kill sends SIGKILL.
func (p *proc) kill() {
	p.killedAt = measure.Stamp()
	_ = p.cmd.Process.Kill()
}

// dismiss makes a worker end by the end of its stdin.
func (p *proc) dismiss() { _ = p.stdin.Close() }

func (p *proc) alive() bool { return !p.ended && p.killedAt == 0 }

// holding reports whether a goroutine of the worker holds the lock, as far as its events tell.
func (p *proc) holding() bool {
	for _, pl := range p.places {
		if pl.hold >= 0 {
			return true
		}
	}
	return false
}

// allWaitSince is the newest stamp since which all goroutines of p wait; ok is false when one does not.
func (p *proc) allWaitSince(goroutines int) (since int64, ok bool) {
	if len(p.places) < goroutines {
		return 0, false
	}
	for _, pl := range p.places {
		if !pl.waiting {
			return 0, false
		}
		since = max(since, pl.since)
	}
	return since, true
}

// failure is why a worker ended that was not killed, nil if it did well.
func (p *proc) failure(err error) error {
	if err == nil || p.killedAt != 0 {
		return nil
	}
	if p.corrupt {
		return fmt.Errorf("%w: worker %d: %s", ErrFailed, p.id, p.fatal)
	}
	var said error
	if p.fatal != "" {
		said = errors.New(p.fatal)
	}
	var last error
	if words := p.tail.String(); words != "" {
		last = fmt.Errorf("its last words: %s", words)
	}
	return fmt.Errorf("demo: worker %d (pid %d) ended by itself: %w", p.id, p.cmd.Process.Pid, errors.Join(err, said, last))
}
