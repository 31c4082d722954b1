//go:build linux || darwin || freebsd

package main

import (
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
)

// child is the command, in a process group that was made for it. The group lets signals reach what the command has started,
// and keeps those of the terminal from fairlock.
type child struct {
	pid    int
	group  int
	events chan syscall.WaitStatus
	guard  *guard
}

// startChild starts the command. events gets each stop, and at last the end, of the command. A reader that is busy delays
// the reaping and loses nothing.
//
// The goroutine that forks waits too, on one and the same locked thread. The parent-death signal (Linux) is sent when the
// *thread* that forked ends, and Go ends threads as it likes, other than locked ones: without the lock a living
// fairlock could kill its command.
func startChild(path string, argv, env []string) (*child, error) {
	adoptOrphans()
	g, err := startGuard()
	if err != nil {
		return nil, err
	}
	c := &child{guard: g, group: g.pid, events: make(chan syscall.WaitStatus)}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := &exec.Cmd{
			Path: path, Args: argv, Env: env,
			Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			SysProcAttr: childAttr(c.group),
		}
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
			if c.group == 0 {
				c.group = c.pid
			}
		}
		started <- err
		if err == nil {
			c.wait()
			_ = cmd.Process.Release()
		}
	}()
	if err := <-started; err != nil {
		g.end()
		return nil, err
	}
	return c, nil
}

// wait reaps the command, in place of exec.Cmd.Wait, which does not tell of stops; the guard, if it was killed; and adopted
// orphans. Nothing else is ever started by fairlock run.
func (c *child) wait() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			panic("bug: wait for the command: " + err.Error())
		case pid == c.pid:
			c.events <- ws
			if !ws.Stopped() {
				return
			}
		case pid == c.guard.pid && !ws.Stopped():
			c.guard.reaped.Store(true)
		}
	}
}

// signal sends sig to the group. An error means that the group is empty, which is as good, or that all of it belongs
// to other users (setuid), against which nothing helps.
//
// The group's number cannot have become another's: the guard leads the group and is reaped last.
func (c *child) signal(sig syscall.Signal) { _ = syscall.Kill(-c.group, sig) }

// sweeps bounds how often kill looks for more: a command that forks without end is the next tick's again.
const sweeps = 32

// kill ends all processes that can be found, at once: were it one generation a call, a tree of many would outlive the lease. Parents
// come before their children, and it looks again until there is nobody new, so that what was forked meanwhile is found under
// this process, which has adopted it.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	killed := map[int]bool{}
	for range sweeps {
		before := len(killed)
		for _, pid := range offspring() {
			if killed[pid] {
				continue
			}
			killed[pid] = true
			// A process keeps its number until it is reaped, which could happen since the list was made. The number would have
			// to be given anew in that moment.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(killed) == before {
			return
		}
	}
}

// gone reports whether the command and all that it has started have ended. It may be called once the end was read from
// events; it reaps.
func (c *child) gone() bool {
	c.guard.end()
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case err == syscall.ECHILD:
			return orphansAdopted || syscall.Kill(-c.group, 0) == syscall.ESRCH
		case err == nil && pid == 0:
			return false
		}
	}
}

// leave parts from a command that has ended by itself. What it has left behind in the background runs on.
func (c *child) leave() { c.guard.end() }

// statusOf is the exit code that stands for the way a process ended.
func statusOf(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return exitSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// guardScript says that it is ready, waits for end-of-file, and kills its own process group. It outlives what is sent to the
// group for the command.
const guardScript = `trap '' HUP INT QUIT TERM USR1 USR2 TSTP TTIN TTOU; echo; read -r x; kill -9 0`

// guard leads the command's group, and kills it when fairlock has died, even of SIGKILL: nobody renews the lease then, and
// neither the command nor what it has started may run when the lease is over. The parent-death signal does that for
// the command alone, and on Linux alone. Proof:
//
//   - The write end of its pipe exists in fairlock alone: it is close-on-exec, and fairlock forks nothing after the
//     command, which is in the group before its exec. So end-of-file comes when fairlock has ended.
//   - fairlock cannot end without the kernel closing the pipe.
//   - "kill 0" names the group by membership, and SIGKILL ends stopped processes as well. A stopped guard goes on: a group
//     with stopped processes that is orphaned by fairlock's death gets SIGHUP, which it ignores, and SIGCONT.
//
// Without a shell on the machine there is no guard: pid is 0, and the command leads its group itself.
type guard struct {
	cmd    *exec.Cmd
	pid    int
	hold   *os.File    // the write end
	reaped atomic.Bool // it was killed, and its number may have become another's
}

func startGuard() (*guard, error) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		return &guard{}, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	ready, readyW, err := os.Pipe()
	if err != nil {
		_ = w.Close()
		return nil, err
	}
	defer func() { _ = ready.Close() }()
	// Neither a folder nor standard output is kept in use by it. Its first argument must be sh, for that may be busybox; the last
	// one is for people.
	cmd := &exec.Cmd{
		Path: sh, Args: []string{"sh", "-c", guardScript, "fairlock-guard"}, Dir: "/", Stdin: r, Stdout: readyW,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	err = cmd.Start()
	_ = readyW.Close()
	if err != nil {
		_ = w.Close()
		return nil, err
	}
	// A signal to the group before the traps would end it. An error, or end-of-file, is a guard that has died: starting the command
	// in its group then fails, as it should.
	_, _ = ready.Read(make([]byte, 1))
	return &guard{cmd: cmd, pid: cmd.Process.Pid, hold: w}, nil
}

// end ends the guard and leaves its group alone. It may be repeated. The pipe must not be closed before the guard is dead.
func (g *guard) end() {
	if g.pid == 0 || g.hold == nil {
		return
	}
	if !g.reaped.Load() {
		_ = syscall.Kill(g.pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(g.pid, nil, 0, nil)
	}
	_ = g.hold.Close()
	_ = g.cmd.Process.Release()
	g.hold = nil
}
