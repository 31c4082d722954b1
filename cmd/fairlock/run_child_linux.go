package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttr puts the command into a group, and has the kernel kill it when fairlock dies.
func childAttr(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group, Pdeathsig: syscall.SIGKILL}
}

// guardAttr makes the guard the leader of a group, and wakes it when fairlock dies. It matters little which thread starts it: a signal too many does
// nothing.
func guardAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGCONT}
}

const orphansAdopted = true

// adoptOrphans makes fairlock the parent of every process that the command has started and whose parent has ended, also
// of those that have left the group (setsid). So "no child" proves that nothing is left. The call cannot fail on any
// kernel that Go runs on.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// offspring lists all that descend from a process, but for some children and theirs, parents before their children. Children are listed by thread; adopted ones
// are the first thread's. A kernel built without the lists has none to give.
func offspring(of int, spared []int) (pids []int) {
	pids = slices.DeleteFunc(childrenOf(of), func(pid int) bool { return slices.Contains(spared, pid) })
	for i := 0; i < len(pids); i++ {
		pids = append(pids, childrenOf(pids[i])...)
	}
	return pids
}

// childrenOf lists a process's children.
func childrenOf(parent int) (pids []int) {
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(parent) + "/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, s := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(s); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// bootClock runs on while the machine sleeps.
const bootClock = unix.CLOCK_BOOTTIME

// self is this very program, even if a newer one has been put in its place since.
func self() (string, error) { return "/proc/self/exe", nil }

// newMemory is a file without a name or a disk.
func newMemory() (*os.File, error) {
	fd, err := unix.MemfdCreate("fairlock-guard", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "fairlock-guard"), nil
}
