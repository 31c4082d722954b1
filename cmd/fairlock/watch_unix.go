//go:build linux || darwin || freebsd

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// readerGone reports whether out is a pipe or a socket that nobody reads from any more. A write would tell, and end the process by
// SIGPIPE; but where nothing changes there is none, and "fairlock watch | head -1" would stay for ever.
func readerGone(out *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(out.Fd())}} //nolint:gosec // a descriptor
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLERR != 0
}

// brokenPipe ends fairlock as a write would have.
func brokenPipe() error { return signalled(syscall.SIGPIPE) }

// jobControl delivers what Ctrl-Z sends, and that the process goes on after it was stopped by anybody. stop undoes it.
func jobControl() (sent chan os.Signal, stop func()) { return notify(syscall.SIGTSTP, syscall.SIGCONT) }

// stopSelf does what Ctrl-Z means, and returns when the process goes on. It is SIGSTOP, since Go's runtime keeps its own handler of a
// signal that was once asked for. The kernel stops nobody by Ctrl-Z whom no shell could continue, and neither does this: a
// shell with job control has given the process a group that is not the session leader's.
func stopSelf(sent chan os.Signal) {
	if sid, err := unix.Getsid(0); err != nil || sid == unix.Getpgrp() {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	for sig := range sent {
		if sig == syscall.SIGCONT {
			return
		}
	}
}

func isStop(sig os.Signal) bool { return sig == syscall.SIGTSTP }
