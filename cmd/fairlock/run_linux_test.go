package main

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKilledWithoutShell: a machine without a shell has no guard; the command itself dies all the same.
func TestKilledWithoutShell(t *testing.T) {
	b := newBench(t)
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	fairlock, err := exec.LookPath("fairlock")
	require.NoError(t, err)
	p := b.startCmd(exec.Command("fairlock", "run", "--label", "bare", "job", "--", sleep, "100"), []string{"PATH=" + b.dir})
	require.Equal(t, fairlock, p.cmd.Path)
	var child int
	b.eventually(func() bool {
		for _, pid := range childrenOf(p.cmd.Process.Pid) {
			child = pid
		}
		return child != 0
	}, "the command runs")
	p.signal(syscall.SIGKILL)
	b.eventually(func() bool { return !alive(child) }, "the command is gone")
}
