//go:build linux || darwin

package replset

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

// guard is the watcher of one set, which makes I7 true. The proof:
//
//   - The write end of its pipe exists in the parent alone. It is close-on-exec;
//     a child between fork and exec has it too, but only until that exec, and has
//     joined its process group before. So end-of-file comes when the parent has
//     ended and every child it managed to fork is where the kill finds it.
//   - The parent cannot end without the kernel closing the pipe.
//   - `kill -9 0` names the shell's own group by membership, not by number, so it
//     cannot hit a stranger who was given a reused number. All members were
//     started in that group: see attr.
//   - SIGKILL ends stopped processes as well.
//
// If the shell itself is killed, done closes and the set takes its members down
// (watch in set.go): servers without a guard are not kept.
type guard struct {
	cmd  *exec.Cmd
	hold *os.File      // the write end
	done chan struct{} // closed when the shell was reaped
}

func startGuard() (*guard, error) {
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
		return nil, fmt.Errorf("replset: watcher: %w", err)
	}
	g := &guard{cmd: cmd, hold: w, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // always "killed": by itself or by a stranger
		// Else a set that nobody refers to any more, but whose URI is in use, would
		// have its pipe closed by the garbage collector.
		runtime.KeepAlive(g.hold)
		close(g.done)
	}()
	return g, nil
}

// attr puts a process into the guard's group. If the guard is gone, starting the
// process fails, as it should.
func (g *guard) attr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: g.cmd.Process.Pid}
}

// release makes the guard kill its group, itself included.
func (g *guard) release() { _ = g.hold.Close() }
