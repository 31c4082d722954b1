package lab

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// onNewThread runs f on an operating system thread that ends afterwards, so f may change the thread's namespaces.
func onNewThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		// Not unlocked: the runtime ends the thread with the goroutine. Other goroutines never see it.
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread cannot end; it would keep the namespace. While it is locked, the next goroutine has another.
			defer runtime.UnlockOSThread()
			done <- onNewThread(f)
			return
		}
		done <- f()
	}()
	return <-done
}

// inNamespace runs f on a thread in the network namespace ns. A process that f starts is in it, and a socket or device that f
// opens belongs to it for ever.
func inNamespace(ns *os.File, f func() error) error {
	return onNewThread(func() error {
		// SyscallConn is not used: Fd of a file that was opened for reading in /proc is blocking anyway.
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("lab: setns: %w", err)
		}
		return f()
	})
}

// newNamespace makes a network namespace, which lives as long as the file, or a process in it.
func newNamespace() (ns *os.File, err error) {
	err = onNewThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("lab: unshare: %w", err)
		}
		if err := loopbackUp(); err != nil {
			return err
		}
		ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return ns, err
}
