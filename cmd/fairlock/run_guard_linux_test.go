package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGuardedWhileGoing: the lock is lost and the command has ended in time, but something that it has started has not; then fairlock too is
// stopped or killed. That something, which hears nothing, is gone before the next in line has the lock all the same.
func TestGuardedWhileGoing(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"stopped": syscall.SIGSTOP, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			network, uri := newCable(b)
			p := b.start("run", "--uri", uri, "--ttl", brief, "job", "--", "sh", "-c", begin+`
sh -c 'trap "" TERM HUP; echo $$ > grandchild; exec sleep 100' &
trap 'exit 0' TERM; echo $$ > child; `+forever)
			child, grandchild := b.pid("child"), b.pid("grandchild")
			b.known("job")
			b.queuedBehind("job", func() {
				network.Cut()
				b.eventually(func() bool { return syscall.Kill(child, 0) != nil }, "the command is reaped")
				require.True(t, alive(grandchild))
				p.signal(sig)
			}, func() {
				require.False(t, alive(grandchild), "a process of the command runs beside the next holder")
			})
			if sig == syscall.SIGSTOP {
				p.signal(syscall.SIGCONT)
				p.exits(76)
			}
		})
	}
}

// TestOthersChildren: the process that became fairlock had started something before, which is no part of the command.
func TestOthersChildren(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]bool{"by fairlock": false, "by the guard": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			network, uri := newCable(b)
			p := b.startCmd(exec.Command("sh", "-c", `sleep 100 & echo $! > other; exec fairlock run --uri "$1" --ttl "$2" job -- sh -c "$3"`, "sh", uri, brief, deaf()), nil)
			other := b.pid("other")
			pids := b.deafPIDs()
			b.known("job")
			if stop {
				p.signal(syscall.SIGSTOP)
			} else {
				network.Cut()
			}
			b.eventually(func() bool { return !alive(pids[0]) && !alive(pids[1]) && !alive(pids[2]) }, "the command is gone")
			if stop {
				p.signal(syscall.SIGCONT)
			}
			p.exits(76)
			require.True(t, alive(other), "what others have started runs on")
			require.NotContains(t, p.errors(), "still there")
		})
	}
}

// TestGuardKillsItsGroup: the lists of who descends from whom do not have all, above all not what forks faster than they are read. The process group has: here
// somebody else's child, which no list shows. (A storm of forks in its place fills the machine's table of processes, since nobody reaps for a fairlock
// that is stopped.)
func TestGuardKillsItsGroup(t *testing.T) {
	b := newBench(t)
	p := b.start("run", "--ttl", brief, "job", "--", "sh", "-c", begin+`echo $$ > child; `+forever)
	group, err := syscall.Getpgid(b.pid("child"))
	require.NoError(t, err)
	joined := exec.Command("sleep", "100")
	joined.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	require.NoError(t, joined.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = joined.Wait()
	}()
	b.known("job")
	b.queuedBehind("job", func() { p.signal(syscall.SIGSTOP) }, func() {
		require.False(t, alive(joined.Process.Pid), "a process of the group runs beside the next holder")
	})
	<-ended
	p.signal(syscall.SIGCONT)
	p.exits(76)
}

// TestKilledStoppedInside: fairlock is killed while its command and the guard are stopped, and what then adopts them is of their session, as the shell that is
// the first process of a container is: the kernel wakes no orphaned process group then.
func TestKilledStoppedInside(t *testing.T) {
	b := newBench(t)
	outer := b.start("run", "outer", "--", "sh", "-c", `fairlock run inner -- sh -c '(trap "" HUP; echo > ready; exec sleep 100) & echo $! > grandchild; echo $$ > child; wait' &
echo $! > fairlock; wait; while ! [ -e go ]; do sleep 0.02; done`)
	inner, child, grandchild := b.pid("fairlock"), b.pid("child"), b.pid("grandchild")
	b.read("ready")
	group, err := syscall.Getpgid(child)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(-group, syscall.SIGSTOP))
	require.NoError(t, syscall.Kill(inner, syscall.SIGKILL))
	b.eventually(func() bool { return !alive(child) && !alive(grandchild) && !alive(group) }, "processes of the command, and their guard, are gone")
	b.write("go")
	outer.exits(0)
}

// TestKeepOfWhatIsLost: the lock can be lost while the guard starts.
func TestKeepOfWhatIsLost(t *testing.T) {
	b := newBench(t)
	lock := b.lock("job")
	b.unlock(lock)
	until, memory, err := newDeadline()
	require.NoError(t, err)
	require.NoError(t, memory.Close())
	h := &holding{runner: &runner{runFlags: &runFlags{killAfter: time.Second}}, lock: lock, tick: time.Second}
	h.keep(until)()
	require.LessOrEqual(t, until.left(), 5*time.Second, "a command under a lost lock may run for ever")
}

// TestGuardKilled: somebody has killed the guard, which a machine short of memory does too. fairlock says so and goes on.
func TestGuardKilled(t *testing.T) {
	b := newBench(t)
	p := b.start("run", "job", "--", "sh", "-c", `echo $$ > child; while ! [ -e go ]; do sleep 0.02; done; exit 3`)
	group, err := syscall.Getpgid(b.pid("child"))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(group, syscall.SIGKILL))
	b.eventually(func() bool { return strings.Contains(p.errors(), "guard") }, "a warning")
	b.write("go")
	p.exits(3)
	b.free("job")
}
