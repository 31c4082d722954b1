package replset

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const (
	startTail = 20 // lines of log in a StartError

	// A member that lost its port waits this long for it at Restart.
	portWait  = 10 * time.Second
	portRetry = 100 * time.Millisecond
)

// Member is one server of a set. Its address and folder stay the same over
// restarts.
type Member struct {
	set  *Set
	id   int
	dir  string
	port int // fixed when Start returns

	mu     sync.Mutex // guards the rest
	proc   *process   // the latest run, nil before the first
	paused bool
}

// Addr is host:port.
func (m *Member) Addr() string { return net.JoinHostPort(m.host(), strconv.Itoa(m.port)) }

func (m *Member) host() string { return m.set.opts.Host(m.id) }

// PID is the process id of the latest run, alive or not.
func (m *Member) PID() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc == nil {
		return 0
	}
	return m.proc.pid()
}

// Alive says whether the process exists. A paused one does.
func (m *Member) Alive() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc != nil && m.proc.alive()
}

// LogTail returns the last n lines of the member's log, over all its runs.
func (m *Member) LogTail(n int) string { return tail(m.logPath(), n) }

// Kill ends the process as a power cut would (SIGKILL) and returns when it is
// gone, paused or not. Killing a dead member is no error.
func (m *Member) Kill() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.killLocked()
	return nil
}

// killLocked needs m.mu.
func (m *Member) killLocked() {
	if m.proc == nil {
		return
	}
	m.proc.kill()
	<-m.proc.done
	m.paused = false
}

// Pause stops the process (SIGSTOP): it keeps its connections and answers
// nothing. On return no thread of it runs. ErrNotRunning if it is dead.
func (m *Member) Pause() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.paused {
		return nil
	}
	if err := m.signalLocked(sigStop); err != nil {
		return err
	}
	if err := awaitStop(m.proc); err != nil {
		return fmt.Errorf("replset: pause %s: %w", m.Addr(), notRunning(err))
	}
	m.paused = true
	return nil
}

// Resume undoes Pause. ErrNotRunning if the process is dead.
func (m *Member) Resume() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.signalLocked(sigCont); err != nil {
		return err
	}
	m.paused = false
	return nil
}

// signalLocked needs m.mu.
func (m *Member) signalLocked(s os.Signal) error {
	if m.proc == nil {
		return fmt.Errorf("%w: %s", ErrNotRunning, m.Addr())
	}
	if err := m.proc.signal(s); err != nil {
		return fmt.Errorf("replset: signal %v to %s: %w", s, m.Addr(), notRunning(err))
	}
	return nil
}

func notRunning(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return ErrNotRunning
	}
	return err
}

// Restart kills the process if it runs, and starts another one on the same port
// and data. It returns when that one accepts connections, not when it has caught
// up: see [Set.WaitHealthy]. On error the member is down.
func (m *Member) Restart(ctx context.Context) error {
	if err := m.Kill(); err != nil {
		return err
	}
	// The port was free for a moment. Should somebody have it, he most likely
	// holds it as briefly.
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	giveUp := time.Now().Add(portWait)
	tick := time.NewTicker(portRetry)
	defer tick.Stop()
	for {
		p, err := m.launch(ctx)
		if err == nil {
			return nil
		}
		if p == nil || !p.portTaken() || time.Now().After(giveUp) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// launch starts mongod and waits until it serves its port. On error there is no
// live process; the dead one, if there was one, is returned for its exit status.
func (m *Member) launch(ctx context.Context) (*process, error) {
	offset := fileSize(m.logPath())
	p, err := m.fork()
	if err != nil {
		return nil, err
	}
	if err := p.awaitListening(ctx, m.logPath(), offset); err != nil {
		p.kill()
		<-p.done
		if m.set.stopped.Load() {
			return p, ErrStopped
		}
		return p, &StartError{Addr: m.Addr(), Err: err, Log: m.LogTail(startTail)}
	}
	return p, nil
}

// fork starts the process and makes it m.proc in one step under m.mu. stopped is
// set before takeDown locks m.mu, so either this sees it set, or takeDown sees the
// process: none escapes.
func (m *Member) fork() (*process, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.set.stopped.Load() {
		return nil, ErrStopped
	}
	if m.proc != nil && m.proc.alive() {
		return nil, fmt.Errorf("replset: %s was started by somebody else meanwhile", m.Addr())
	}
	// The log is in m.dir, the data need not be.
	if err := errors.Join(os.MkdirAll(m.dir, 0o700), os.MkdirAll(m.dbPath(), 0o700)); err != nil {
		return nil, err
	}
	launch := func(cmd *exec.Cmd) error { return m.set.opts.Launch(m.id, cmd) }
	args := append(m.set.opts.args(m.host(), m.port, m.dbPath()), m.set.security.args()...)
	p, err := startProcess(m.set.bin.Path, args, m.logPath(), m.set.guard.Attr(), launch)
	if err != nil {
		return nil, fmt.Errorf("replset: start %s: %w", m.set.bin.Path, err)
	}
	m.proc, m.paused = p, false
	return p, nil
}

// takeDown kills without waiting and returns what to wait for, nil if nothing.
func (m *Member) takeDown() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc == nil {
		return nil
	}
	m.proc.kill()
	return m.proc.done
}

// answers is false for members of which no answer can come, so that questions
// need not wait for them.
func (m *Member) answers() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc != nil && m.proc.alive() && !m.paused
}

func (m *Member) dbPath() string {
	if path := m.set.opts.DBPath; path != nil {
		return path(m.id)
	}
	return filepath.Join(m.dir, "db")
}

func (m *Member) logPath() string { return filepath.Join(m.dir, "mongod.log") }
