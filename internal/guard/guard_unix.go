//go:build linux || darwin

package guard

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// guardScript waits for end-of-file and then kills its own process group.
//
// The signals are ignored, because of this order of events: the parent is killed
// while a member is stopped; the group is thereby orphaned with a stopped process
// in it; POSIX has the kernel send SIGHUP to the whole group. Without the trap
// that could end the shell before it has read end-of-file. (The kernel closes the
// pipe before it sends SIGHUP, but the shell need not have run in between.)
const guardScript = `trap '' HUP INT QUIT TERM; read -r x; kill -9 0`

// Guard is the watcher of one group of servers. Why none of them outlives the process that started it:
//
//   - The write end of its pipe exists in the parent alone. It is close-on-exec;
//     a child between fork and exec has it too, but only until that exec, and has
//     joined its process group before. So end-of-file comes when the parent has
//     ended and every child it managed to fork is where the kill finds it.
//   - The parent cannot end without the kernel closing the pipe.
//   - `kill -9 0` names the shell's own group by membership, not by number, so it
//     cannot hit a stranger who was given a reused number. All members were
//     started in that group: see Attr.
//   - SIGKILL ends stopped processes as well.
//
// If the shell itself is killed, Done is closed, and whoever has the servers should
// take them down: without a guard they could be left over.
type Guard struct {
	cmd  *exec.Cmd
	hold *os.File      // the write end
	done chan struct{} // closed when the shell was reaped
}

// Start starts a guard.
func Start() (*Guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	cmd := exec.Command("sh", "-c", guardScript)
	cmd.Stdin = r
	cmd.Dir = "/" // holds no folder that somebody may want to unmount
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("watcher: %w", err)
	}
	g := &Guard{cmd: cmd, hold: w, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // always "killed": by itself or by a stranger
		// Else servers that nobody refers to any more, but whose addresses are in use,
		// would have the pipe closed by the garbage collector.
		runtime.KeepAlive(g.hold)
		close(g.done)
	}()
	return g, nil
}

// Done is closed when the guard has ended.
func (g *Guard) Done() <-chan struct{} { return g.done }

// PID is the guard's process id, and that of its group.
func (g *Guard) PID() int { return g.cmd.Process.Pid }

// Attr puts a process into the guard's group. If the guard is gone, starting the
// process fails, as it should.
func (g *Guard) Attr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: g.PID()}
}

// Release makes the guard kill its group, itself included. It may be repeated.
func (g *Guard) Release() { _ = g.hold.Close() }
