package replset

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	logPoll = 20 * time.Millisecond

	// listening is what mongod logs once it has bound its port and serves it.
	listening = `"Waiting for connections"`

	// exitPort is mongod's exit status when it cannot bind (EXIT_NET_ERROR).
	exitPort = 48
)

// process is one run of mongod.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it was reaped
	err  error         // how it ended; read only after done
}

// startProcess runs mongod with its output appended to logPath. It logs to
// standard output, so that messages from before and after its own logging, such as
// the loader's or abort's, end up in the same file.
func startProcess(path string, args []string, logPath string, attr *syscall.SysProcAttr, launch func(*exec.Cmd) error) (*process, error) {
	out, err := os.OpenFile(logPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the child has its own copy
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attr
	if err := launch(cmd); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal is safe against a reused pid: os.Process refuses once it was reaped.
func (p *process) signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// kill does not wait.
func (p *process) kill() { _ = p.signal(os.Kill) } // fails only if it has ended

// portTaken is true if the process ended because it could not bind.
func (p *process) portTaken() bool {
	if p.alive() {
		return false
	}
	var exit *exec.ExitError
	return errors.As(p.err, &exit) && exit.ExitCode() == exitPort
}

// awaitListening returns when the log, from offset on, says that this process
// serves its port (I5). Dialling the port would prove less: somebody else may
// have it.
func (p *process) awaitListening(ctx context.Context, logPath string, offset int64) error {
	tick := time.NewTicker(logPoll)
	defer tick.Stop()
	for {
		said, err := readFrom(logPath, offset)
		if err != nil {
			return err
		}
		if bytes.Contains(said, []byte(listening)) {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			if p.err == nil {
				return errors.New("it ended with status 0")
			}
			return p.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func readFrom(path string, offset int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// tail returns the last n lines of a file, as far as they lie in its last 256 KB.
func tail(path string, n int) string {
	text, err := readFrom(path, max(0, fileSize(path)-256<<10))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
