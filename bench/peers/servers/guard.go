package servers

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// guardScript waits for end-of-file and then kills its own process group. It ignores signals that the kernel or a terminal may send to the
// group first.
const guardScript = `trap '' HUP INT QUIT TERM; read -r x; kill -9 0`

// guard leads the process group of a set. Only this process has the write end of its pipe, and the kernel closes it when this process
// ends, by whatever signal. That is how internal/replset ends its members too, and the proof is there.
type guard struct {
	cmd  *exec.Cmd
	hold *os.File
	done chan struct{} // closed when the shell was reaped
}

func startGuard() (*guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	cmd := exec.Command("sh", "-c", guardScript)
	cmd.Stdin, cmd.Dir = r, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("watcher: %w", err)
	}
	g := &guard{cmd: cmd, hold: w, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // always "killed": by itself
		close(g.done)
	}()
	return g, nil
}

// attr puts a process into the group; it is then another user's if cred says so.
func (g *guard) attr(cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: g.cmd.Process.Pid, Credential: cred}
}

// release kills the group, the guard included.
func (g *guard) release() {
	_ = g.hold.Close() // it may be closed already
	<-g.done
}
