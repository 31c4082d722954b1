//go:build linux || darwin || freebsd

package main

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// child is the command, in a process group that was made for it. The group lets signals reach what the command has started,
// and keeps those of the terminal from fairlock.
type child struct {
	pid    int
	group  int
	events chan syscall.WaitStatus
	guard  *guard
	others []int // children of this process that are not the command's: the guard, and what it had before it became fairlock (a shell's "x & exec fairlock")
}

// startChild starts the command. events gets each stop, and at last the end, of the command. A reader that is busy delays
// the reaping and loses nothing.
//
// The goroutine that forks waits too, on one and the same locked thread. The parent-death signal (Linux) is sent when the
// *thread* that forked ends, and Go ends threads as it likes, other than locked ones: without the lock a living
// fairlock could kill its command.
//
// A guard that was killed before is a zombie, whose group the command still joins: it then runs unguarded, under fairlock alone.
func startChild(g *guard, path string, argv, env []string) (*child, error) {
	c := &child{guard: g, group: g.pid, events: make(chan syscall.WaitStatus), others: childrenOf(os.Getpid())}
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
		}
		started <- err
		if err == nil {
			c.wait()
			_ = cmd.Process.Release()
		}
	}()
	if err := <-started; err != nil {
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

// kill ends all processes that can be found, at once.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	killOffspring(os.Getpid(), c.others)
}

// sweeps bounds how often killOffspring looks for more: a command that forks without end is the next tick's again.
const sweeps = 32

// killOffspring ends all that descend from a process, but for some children and theirs: were it one generation a call, a tree of many would outlive the lease. Parents
// come before their children, and it looks again until there is nobody new, so that what was forked meanwhile is found under
// fairlock, which has adopted it.
func killOffspring(of int, spared []int) {
	killed := map[int]bool{}
	for range sweeps {
		before := len(killed)
		for _, pid := range offspring(of, spared) {
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
//
// The guard is needed as long as there is something: this process can still be stopped or killed. So it is ended only when the lists show nobody
// else. They are not read in one moment; what they have missed is a child of this process, or of its children, then.
func (c *child) gone() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case err == nil && pid == c.guard.pid:
			c.guard.reaped.Store(true)
		case err == syscall.ECHILD:
			return orphansAdopted || c.groupGone()
		case err == nil && pid == 0 && len(offspring(os.Getpid(), c.others)) > 0:
			return false
		case err == nil && pid == 0 && c.guard.hold != nil:
			c.guard.end()
		case err == nil && pid == 0 && orphansAdopted:
			return len(childrenOf(os.Getpid())) > 0 // there are lists, and these are others
		case err == nil && pid == 0:
			return c.groupGone()
		}
	}
}

func (c *child) groupGone() bool { return syscall.Kill(-c.group, 0) == syscall.ESRCH }

// leave parts from a command that has ended by itself. What it has left behind in the background runs on.
func (c *child) leave() { c.guard.end() }

// statusOf is the exit code that stands for the way a process ended.
func statusOf(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return exitSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}
