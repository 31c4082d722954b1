package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// screen is a terminal with a person before it.
type screen struct {
	b    *bench
	ptmx *os.File
	cmd  *exec.Cmd
	done chan struct{} // closed when the process was reaped

	mu   sync.Mutex // guards text
	text string     // all that was shown
	seen int        // how much of it await has been over; the test's goroutine only
}

// newScreen runs a command as the leader of a session on a new terminal.
func newScreen(b *bench, args ...string) *screen {
	b.Helper()
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(b, err)
	n, err := unix.IoctlGetInt(int(ptmx.Fd()), unix.TIOCGPTN)
	require.NoError(b, err)
	require.NoError(b, unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0))
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(b, err)

	s := &screen{b: b, ptmx: ptmx, cmd: exec.Command(args[0], args[1:]...), done: make(chan struct{})}
	s.cmd.Dir = b.dir
	s.cmd.Env = append(os.Environ(), "FAIRLOCK_URI="+b.uri, "PS1=prompt:", "ENV=", "TERM=dumb")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(b, s.cmd.Start())
	_ = tty.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := ptmx.Read(buf)
			s.mu.Lock()
			s.text += string(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return // EIO: everybody has left the terminal
			}
		}
	}()
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait()
	}()
	b.Cleanup(func() {
		_ = s.cmd.Process.Kill() // the kernel hangs up for the rest of the session
		<-s.done
		<-read
		_ = ptmx.Close()
	})
	return s
}

// types sends keys.
func (s *screen) types(keys string) {
	s.b.Helper()
	_, err := s.ptmx.WriteString(keys)
	require.NoError(s.b, err)
}

// await waits for a text after those that were awaited before.
func (s *screen) await(text string) {
	s.b.Helper()
	for limit := time.Now().Add(long); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		i := strings.Index(s.text[s.seen:], text)
		s.mu.Unlock()
		if i >= 0 {
			s.seen += i + len(text)
			return
		}
		require.True(s.b, time.Now().Before(limit), "waited for %q on the screen: %s", text, s.all())
	}
}

func (s *screen) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	const most = 20_000 // a table that is drawn again and again is too much for a message
	return fmt.Sprintf("%q", s.text[max(0, len(s.text)-most):])
}

func (s *screen) exits(code int) {
	s.b.Helper()
	select {
	case <-s.done:
	case <-time.After(long):
		require.FailNow(s.b, "the command does not end", s.all())
	}
	require.Equal(s.b, code, s.cmd.ProcessState.ExitCode(), s.all())
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// TestTerminalForeground: the command reads from the terminal, Ctrl-C reaches it, and the terminal is fairlock's again after it,
// for the script in which fairlock stands goes on reading.
func TestTerminalForeground(t *testing.T) {
	b := newBench(t)
	s := newScreen(b, "sh", "-c", `
fairlock run job -- sh -c 'trap "echo interrupted; exit 5" INT; read l; echo "got-$l"; while :; do sleep 0.02; done'
echo "code-$?"
read l; echo "after-$l"`)
	s.types("one\n")
	s.await("got-one")
	s.types(ctrlC)
	s.await("interrupted")
	s.await("code-5")
	s.types("two\n")
	s.await("after-two")
	s.exits(0)
	b.free("job")
}

// TestTerminalInterrupt: a command that does not catch it dies of Ctrl-C.
func TestTerminalInterrupt(t *testing.T) {
	b := newBench(t)
	s := newScreen(b, "fairlock", "run", "job", "--", "sh", "-c", "echo ready; exec sleep 100")
	s.await("ready")
	s.types(ctrlC)
	s.exits(130)
	b.free("job")
}

// TestTerminalQueued: Ctrl-C makes a waiter leave the queue.
func TestTerminalQueued(t *testing.T) {
	b := newBench(t)
	held := b.lock("job")
	s := newScreen(b, "fairlock", "run", "job", "--", "touch", "ran")
	b.queued("job", 1)
	s.types(ctrlC)
	s.exits(130)
	b.queued("job", 0)
	b.unlock(held)
}

// TestTerminalPipeline: in a pipeline the terminal is left to all, until the command needs it. Until then Ctrl-C reaches it by
// way of fairlock.
func TestTerminalPipeline(t *testing.T) {
	b := newBench(t)
	s := newScreen(b, "sh", "-c", `trap '' INT; fairlock run job -- sh -c 'read l; echo "got-$l"' | cat; read l; echo "after-$l"`)
	s.types("one\n")
	s.await("got-one")
	s.types("two\n")
	s.await("after-two")
	s.exits(0)

	s = newScreen(b, "sh", "-c", `fairlock run job -- sh -c 'trap "echo interrupted; exit" INT; echo ready; while :; do sleep 0.02; done' | (trap '' INT; cat)`)
	s.await("ready")
	s.types(ctrlC)
	s.await("interrupted")
}

// TestTerminalStop: Ctrl-Z stops the command and fairlock, and the shell has the terminal; fg lets both go on.
func TestTerminalStop(t *testing.T) {
	b := newBench(t)
	s := newScreen(b, "sh", "-i")
	s.await("prompt:")
	s.types(`fairlock run job -- sh -c 'echo re""ady; read l; echo "got-$l"'; echo "code-$?"` + "\n")
	s.await("ready")
	s.types(ctrlZ)
	s.await("Stopped")
	s.await("prompt:")
	s.types("echo sh''ell\n")
	s.await("shell")
	s.types("fg; echo \"code-$?\"\n")
	s.await("fairlock")
	s.types("one\n")
	s.await("got-one")
	s.await("code-0")
	s.types("exit\n")
	s.exits(0)
	b.free("job")
}

// TestTerminalNested: a fairlock within a fairlock hands on what it was handed.
func TestTerminalNested(t *testing.T) {
	b := newBench(t)
	s := newScreen(b, "sh", "-i")
	s.await("prompt:")
	s.types(`fairlock run outer -- fairlock run inner -- sh -c 'echo re""ady; read l; echo "got-$l"; exec sleep 100'; echo "code-$?"` + "\n")
	s.await("ready")
	s.types(ctrlZ)
	s.await("Stopped")
	s.await("prompt:")
	s.types("fg; echo \"code-$?\"\n")
	s.await("fairlock")
	s.types("one\n")
	s.await("got-one")
	s.types(ctrlC)
	s.await("code-130")
	s.types("exit\n")
	s.exits(0)
	b.free("outer")
	b.free("inner")
}

// TestTerminalStopTooLong: a stopped fairlock renews nothing. When it goes on after its lease, the command does not.
func TestTerminalStopTooLong(t *testing.T) {
	b := newBench(t)
	s := newScreen(b, "sh", "-i")
	s.await("prompt:")
	s.types(`fairlock run --ttl 3s job -- sh -c 'echo re""ady; read l; echo "got-$l"'` + "\n")
	s.await("ready")
	b.known("job")
	b.queuedBehind("job", func() {
		s.types(ctrlZ)
		s.await("Stopped")
	}, func() {})
	s.types("fg; echo \"code-$?\"\n")
	s.await("killing the command")
	s.await("code-76")
	s.types("exit\n")
	require.NotContains(t, s.all(), "got-one")
}

// TestTerminalNoShell: with no shell that could continue it, Ctrl-Z does not hang the job.
func TestTerminalNoShell(t *testing.T) {
	b := newBench(t)
	s := newScreen(b, "fairlock", "run", "job", "--", "sh", "-c", `echo ready; read l; echo "got-$l"`)
	s.await("ready")
	s.types(ctrlZ)
	s.types("one\n")
	s.await("got-one")
	s.exits(0)
}
