//go:build darwin || freebsd

package main

import "syscall"

// childAttr puts the command into a group, 0 for a new one.
func childAttr(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group}
}

// What has left the group is out of reach here.
const orphansAdopted = false

func adoptOrphans() {}

func offspring() []int { return nil }
