package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// envInside is the inode of the private network namespace, so that it says nothing to a process that is in another one.
const envInside = "FAIRLOCK_LAB"

// ErrOutside: the process is not in namespaces of its own.
var ErrOutside = errors.New("lab: the process is not in namespaces of its own; call lab.Enter first in main or TestMain, as root")

// prepareLimit bounds the fetching of tools.
const prepareLimit = 5 * time.Minute

// Enter moves the process into private network and mount namespaces. It does not return then: the program begins anew
// there, with the same arguments, descriptors and process id, and its next call of Enter returns nil. Call it before anything else.
//
// Nothing in the namespaces reaches the outside, so what needs a network is fetched first: libfaketime, if it is missing, and
// whatever prepare does. That libfaketime cannot be had is no error here, since most faults do not need it; [NewServerClock] tells.
// An error of prepare is one.
//
// Without root there are no namespaces; Enter then returns an error and the process goes on outside.
func Enter(prepare func(context.Context) error) error {
	if Inside() {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("lab: namespaces need root, and this is user %d", os.Geteuid())
	}
	ctx, cancel := context.WithTimeout(context.Background(), prepareLimit)
	defer cancel()
	if prepare != nil {
		if err := prepare(ctx); err != nil {
			return err
		}
	}
	if _, err := faketimeLibrary(); err != nil {
		if err := installFaketime(ctx); err != nil {
			if err := os.Setenv(envNoFaketime, err.Error()); err != nil {
				return err
			}
		}
	}
	sweep(os.TempDir())
	sweep(controllers)

	// Only this thread moves, and exec keeps the namespaces of the thread that calls it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("lab: unshare: %w", err)
	}
	// Else mounts would travel to the machine's namespace.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("lab: make mounts private: %w", err)
	}
	// libfaketime leaves a file there for each program.
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("lab: mount /dev/shm: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	inode, err := currentNet()
	if err != nil {
		return err
	}
	if err := os.Setenv(envInside, inode); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return fmt.Errorf("lab: exec %s: %w", self, syscall.Exec(self, os.Args, os.Environ()))
}

// Inside says whether the process is in the namespaces that Enter made.
func Inside() bool {
	inode, err := currentNet()
	return err == nil && os.Getenv(envInside) == inode
}

// currentNet is the inode of the calling thread's network namespace.
func currentNet() (string, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return "", fmt.Errorf("lab: own network namespace: %w", err)
	}
	return strconv.FormatUint(st.Ino, 10), nil
}
