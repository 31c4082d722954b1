package main

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

// TestWatchTerminal: a table that is drawn again, and afterwards the screen is as before.
func TestWatchTerminal(t *testing.T) {
	b := newBench(t)
	s := newScreen(b, "env", "TERM=xterm", "fairlock", "watch", "--interval", "100ms", "job")
	s.await(enterScreen)
	s.await("there is no such lock; waiting for it")
	lock := b.lock("job")
	s.await("\x1b[32mheld\x1b[0m")
	s.await("test")
	b.unlock(lock)
	s.await("\x1b[2mfree\x1b[0m")
	s.types(ctrlC)
	s.await(leaveScreen)
	s.exits(0)

	other := b.holds("other")
	all := newScreen(b, "env", "TERM=xterm", "NO_COLOR=1", "fairlock", "watch", "--interval", "100ms")
	all.await("all locks in ")
	all.await("other   held")
	all.types(ctrlC)
	all.exits(0)

	// Colours and cursors are not for dumb ones.
	dumb := newScreen(b, "env", "TERM=dumb", "fairlock", "watch", "--interval", "100ms")
	dumb.await(fmt.Sprintf(" other held token=%d by=test@", other.Token()))
	dumb.types(ctrlC)
	dumb.exits(0)
	require.NotContains(t, dumb.all(), "x1b")
}

// TestWatchStopped: Ctrl-Z gives the shell its screen and cursor, and fg brings the table back; so does a SIGSTOP that came unasked.
func TestWatchStopped(t *testing.T) {
	b := newBench(t)
	b.holds("job")
	s := newScreen(b, "sh", "-i", "-m")
	s.await("prompt:")
	s.types("TERM=xterm fairlock watch --interval 100ms\n")
	s.await(enterScreen)
	s.await("held")
	s.types(ctrlZ)
	s.await(leaveScreen)
	s.await("Stopped")
	s.await("prompt:")
	s.types("echo $((6*7))\n")
	s.await("42")
	s.types("fg\n")
	s.await(enterScreen)
	s.await("held")
	// Not only once; and by somebody who does not ask.
	s.types(ctrlZ)
	s.await(leaveScreen)
	s.await("Stopped")
	s.types("fg\n")
	s.await(enterScreen)
	s.await("held")
	require.NoError(t, syscall.Kill(childrenOf(s.cmd.Process.Pid)[0], syscall.SIGSTOP))
	s.await("Stopped")
	s.types("fg\n")
	s.await(enterScreen)
	s.await("held")
	s.types(ctrlC)
	s.await(leaveScreen)
	s.await("prompt:")
	s.types("exit\n")
	<-s.done
}

// TestWatchNotStopped: where nobody could continue it Ctrl-Z does nothing.
func TestWatchNotStopped(t *testing.T) {
	b := newBench(t)
	s := newScreen(b, "env", "TERM=xterm", "fairlock", "watch", "--interval", "100ms", "job")
	s.await("there is no such lock")
	s.types(ctrlZ)
	s.await(leaveScreen)
	s.await(enterScreen)
	s.await("there is no such lock")
	s.types(ctrlC)
	s.await(leaveScreen)
	s.exits(0)
}

// holds takes a lock for the rest of the test, and waits until the database shows whose it is.
func (b *bench) holds(name string) *fairlock.Lock {
	b.Helper()
	lock := b.lock(name)
	b.Cleanup(func() { b.unlock(lock) })
	b.known(name)
	return lock
}
