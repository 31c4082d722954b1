//go:build darwin || freebsd

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttr puts the command into a group.
func childAttr(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group}
}

// guardAttr makes the guard the leader of a group.
func guardAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// What has left the group is out of reach here.
const orphansAdopted = false

func adoptOrphans() {}

func offspring(int, []int) []int { return nil }

func childrenOf(int) []int { return nil }

// bootClock runs on while the machine sleeps.
const bootClock = unix.CLOCK_MONOTONIC

func self() (string, error) { return os.Executable() }

// newMemory is a file without a name.
func newMemory() (*os.File, error) {
	f, err := os.CreateTemp("", "fairlock-guard")
	if err == nil {
		_ = os.Remove(f.Name())
	}
	return f, err
}
