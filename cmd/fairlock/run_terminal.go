//go:build linux || darwin || freebsd

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the controlling terminal, of which one process group is the foreground: it alone may read, and gets
// what Ctrl-C and Ctrl-Z send. Methods of a nil terminal do nothing.
//
// The command has a group of its own and would be in the background. So it is given the foreground: at once when both standard
// input and output are the terminal, and otherwise when it stops for want of it (SIGTTIN, SIGTTOU), so that
// "fairlock run ... | less" leaves it to less. It is never taken from anybody but fairlock's own group. Until it is given,
// Ctrl-C reaches fairlock, which passes it on.
type terminal struct {
	file  *os.File
	state *term.State // before the command
	pgrp  int         // fairlock's own group
}

// openTerminal returns nil if there is no controlling terminal.
func openTerminal() *terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	t := &terminal{file: file, pgrp: syscall.Getpgrp()}
	t.state, _ = term.GetState(t.fd())
	return t
}

func (t *terminal) open() bool { return t != nil }

func (t *terminal) close() {
	if t != nil {
		_ = t.file.Close()
	}
}

func (t *terminal) fd() int { return int(t.file.Fd()) }

// prepare lets fairlock act on the terminal from the background, where SIGTTOU would stop it. It must come after the fork, for
// the command would inherit that the signal is ignored.
func (t *terminal) prepare() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU)
	}
}

// shared reports whether the command is to be in the foreground from the start.
func (t *terminal) shared() bool {
	return t != nil && term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
}

// foreground is the group that has the terminal, 0 if that cannot be told.
func (t *terminal) foreground() int {
	pgrp, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return pgrp
}

// give makes group pgrp the foreground if fairlock's group is. It reports whether pgrp has it then.
func (t *terminal) give(pgrp int) bool {
	if t == nil {
		return false
	}
	switch t.foreground() {
	case pgrp:
		return true
	case t.pgrp:
		return unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, pgrp) == nil
	}
	return false
}

// takeBack undoes give. A command that was killed did not undo what it did to the terminal: restore does.
func (t *terminal) takeBack(pgrp int, restore bool) {
	if t == nil || t.foreground() != pgrp {
		return
	}
	_ = unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, t.pgrp)
	if restore && t.state != nil {
		_ = term.Restore(t.fd(), t.state)
	}
}
