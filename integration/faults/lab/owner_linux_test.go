package lab_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/integration/faults/lab"
)

// inUse says whether any process is in the network namespace or has a descriptor of it.
func inUse(ns string) bool {
	for _, pattern := range []string{"/proc/[0-9]*/ns/net", "/proc/[0-9]*/task/*/ns/net", "/proc/[0-9]*/fd/*"} {
		links, _ := filepath.Glob(pattern)
		for _, l := range links {
			if to, err := os.Readlink(l); err == nil && to == ns {
				return true
			}
		}
	}
	return false
}

// TestOwnerKilled: SIGKILL leaves no process, no namespace, no device and no mount; and an empty folder, until the next sweep.
func TestOwnerKilled(t *testing.T) {
	t.Parallel()
	child := startChild(t, "owner", "FAIRLOCK_LAB=") // it makes its own namespaces
	var p property
	require.NoError(t, child.out.Decode(&p))
	own, err := netOf(os.Getpid())
	require.NoError(t, err)
	require.NotContains(t, p.Networks, own)
	require.NotEqual(t, p.Networks[0], p.Networks[1])
	for _, ns := range p.Networks {
		require.True(t, inUse(ns))
	}
	require.DirExists(t, p.Disk)
	require.False(t, mounted(t, p.Disk), "the mount is the owner's alone")
	lab.Sweep(os.TempDir())
	require.DirExists(t, p.Disk, "what belongs to the living stays")

	require.NoError(t, child.cmd.Process.Kill())
	require.Error(t, child.cmd.Wait())
	for _, ns := range p.Networks {
		require.Eventually(t, func() bool { return !inUse(ns) }, limit, 5*time.Millisecond)
	}
	// Another sweep may come first; nobody else may remove it before.
	lab.Sweep(os.TempDir())
	require.NoDirExists(t, p.Disk)
}

func mounted(t *testing.T, path string) bool {
	t.Helper()
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	require.NoError(t, err)
	return strings.Contains(string(mounts), " "+path+" ")
}

func TestSweep(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	// No process has this id: pid_max is at most 4194304.
	dead, full := filepath.Join(root, "fairlock-lab-99999999-a"), filepath.Join(root, "fairlock-lab-99999999-b")
	odd, mine := filepath.Join(root, "fairlock-lab-x-a"), filepath.Join(root, "fairlock-lab-1-a")
	for _, dir := range []string{dead, full, odd, mine} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(full, "x"), nil, 0o600))
	require.Equal(t, 1, lab.Sweep(root))
	require.NoDirExists(t, dead)
	for _, dir := range []string{full, odd, mine} {
		require.DirExists(t, dir)
	}
}
