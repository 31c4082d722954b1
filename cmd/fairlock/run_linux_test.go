package main

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKilledWithoutShell: fairlock needs none to have all that the command has started die with it.
func TestKilledWithoutShell(t *testing.T) {
	b := newBench(t)
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	p := b.startCmd(exec.Command("fairlock", "run", "job", "--", sh, "-c", `"$0" 100 & echo $! > grandchild; exec "$0" 100`, sleep), []string{"PATH=" + b.dir})
	grandchild := b.pid("grandchild")
	p.signal(syscall.SIGKILL)
	b.eventually(func() bool { return !alive(grandchild) }, "what the command has started is gone")
}
