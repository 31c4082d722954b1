//go:build linux || darwin || freebsd

package main

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSignalQueued: each signal makes a waiter leave the queue, and its exit code tells which.
func TestSignalQueued(t *testing.T) {
	b := newBench(t)
	held := b.lock("job")
	for i, sig := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
	} {
		p := b.start("run", "job", "--", "touch", "ran")
		b.queued("job", 1)
		p.signal(sig)
		p.exits(128 + int(sig))
		require.Empty(t, p.errors(), i)
		b.queued("job", 0)
	}
	b.unlock(held)
	require.False(t, b.exists("ran"))
}

// TestSignalQueuedGapless: who leaves does not stop those behind.
func TestSignalQueuedGapless(t *testing.T) {
	b := newBench(t)
	held := b.lock("job")
	first := b.start("run", "job", "--", "touch", "first")
	b.queued("job", 1)
	second := b.start("run", "job", "--", "touch", "second")
	b.queued("job", 2)
	first.signal(syscall.SIGTERM)
	first.exits(143)
	b.unlock(held)
	second.exits(0)
	require.False(t, b.exists("first"))
	require.True(t, b.exists("second"))
}

// TestSignalRunning: signals reach the command, whose way to end is its own; the lock is given back then.
func TestSignalRunning(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		sig    syscall.Signal
		code   int
	}{
		"handled":   {`trap 'exit 9' TERM; echo > ready; while :; do sleep 0.02; done`, syscall.SIGTERM, 9},
		"default":   {`echo > ready; exec sleep 100`, syscall.SIGTERM, 143},
		"interrupt": {`echo > ready; exec sleep 100`, syscall.SIGINT, 130},
		"hangup":    {`trap 'exit 0' HUP; echo > ready; while :; do sleep 0.02; done`, syscall.SIGHUP, 0},
		// The shell is deaf and waits for its child, which gets the signal as a member of the group.
		"grandchild": {`trap 'true' USR1; sh -c 'echo > ready; exec sleep 100'; exit 4`, syscall.SIGUSR1, 4},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			p := b.start("run", "job", "--", "sh", "-c", c.script)
			b.read("ready")
			p.signal(c.sig)
			p.exits(c.code)
			require.NotContains(t, p.errors(), "fairlock") // the shell may say how its child has ended
			b.free("job")
		})
	}
}

// TestSignalIgnored: who starts fairlock with a signal ignored, as nohup does, means it.
func TestSignalIgnored(t *testing.T) {
	b := newBench(t)
	held := b.lock("job")
	p := b.startCmd(exec.Command("sh", "-c", `trap '' HUP; exec fairlock run job -- sh -c 'echo > ready; while ! [ -e go ]; do sleep 0.02; done; exit 3'`), nil)
	b.queued("job", 1)
	p.signal(syscall.SIGHUP)
	b.unlock(held)
	b.read("ready")
	p.signal(syscall.SIGHUP)
	b.write("go")
	p.exits(3)
}

// TestSecondInterrupt: the second SIGINT kills what the first did not end.
func TestSecondInterrupt(t *testing.T) {
	b := newBench(t)
	p := b.start("run", "job", "--", "sh", "-c", `trap 'echo > first' INT; echo > ready; while :; do sleep 0.02; done`)
	b.read("ready")
	p.signal(syscall.SIGINT)
	b.read("first")
	p.signal(syscall.SIGINT)
	p.exits(137)
	b.free("job")
}

// TestLeftBehind: a command that ends by itself may leave something in the background; the lock does not wait for it.
func TestLeftBehind(t *testing.T) {
	b := newBench(t)
	p := b.start("run", "job", "--", "sh", "-c", `sleep 100 & echo $! > pid; exit 5`)
	p.exits(5)
	pid := b.pid("pid")
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	require.True(t, alive(pid))
	b.free("job")
}

// TestKilled: when fairlock is killed, the command and what it has started die with it, and the next in line gets the lock when
// the lease is over.
func TestKilled(t *testing.T) {
	b := newBench(t)
	p := b.start("run", "--ttl", brief, "job", "--", "sh", "-c",
		`trap '' HUP TERM; (trap '' HUP TERM; sh -c 'echo $$ > grandchild; exec sleep 100') & echo $$ > child; wait`)
	child, grandchild := b.pid("child"), b.pid("grandchild")
	b.known("job")
	next := b.start("run", "job", "--", "true")
	b.queued("job", 1)
	p.signal(syscall.SIGKILL)
	require.Equal(t, -1, p.code())
	b.eventually(func() bool { return !alive(child) && !alive(grandchild) }, "processes of the command are gone")
	next.exits(0)
}

// TestKilledStopped: also when the command is stopped at that moment.
func TestKilledStopped(t *testing.T) {
	b := newBench(t)
	p := b.start("run", "job", "--", "sh", "-c", `sleep 100 & echo $! > grandchild; echo $$ > child; wait`)
	child, grandchild := b.pid("child"), b.pid("grandchild")
	require.NoError(t, syscall.Kill(child, syscall.SIGSTOP))
	require.NoError(t, syscall.Kill(grandchild, syscall.SIGSTOP))
	p.signal(syscall.SIGKILL)
	require.Equal(t, -1, p.code())
	b.eventually(func() bool { return !alive(child) && !alive(grandchild) }, "processes of the command are gone")
}
