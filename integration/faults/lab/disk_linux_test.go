package lab_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock/integration/faults/lab"
)

func TestDisk(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	d, err := lab.NewDisk(size)
	require.NoError(t, err)
	require.True(t, mounted(t, d.Path()))
	free := func() int64 {
		n, err := d.Free()
		require.NoError(t, err)
		return n
	}
	require.EqualValues(t, size, free())
	require.NoError(t, d.Fill())
	require.Zero(t, free())
	require.ErrorIs(t, os.WriteFile(filepath.Join(d.Path(), "x"), []byte("x"), 0o600), unix.ENOSPC)
	require.NoError(t, d.Fill(), "full is full")
	require.NoError(t, d.Drain())
	require.Positive(t, free())
	require.NoError(t, os.WriteFile(filepath.Join(d.Path(), "x"), []byte("x"), 0o600))

	// In use, and removed all the same.
	f, err := os.Open(filepath.Join(d.Path(), "x"))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	require.NoDirExists(t, d.Path())
}

// TestThrottle: a process under the throttle syncs as often as it may, and freely before and after.
func TestThrottle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child := startChild(t, "sync", "LAB_TEST_DIR="+dir)
	sync := func() time.Duration {
		var took time.Duration
		child.ask(&took)
		return took
	}
	sync() // makes the file
	throttle, err := lab.NewThrottle(dir)
	require.NoError(t, err)
	require.NoError(t, throttle.Add(child.cmd.Process.Pid))
	// Ten syncs are at least ten writes.
	require.NoError(t, throttle.Set(10))
	require.Greater(t, sync(), 500*time.Millisecond)
	require.NoError(t, throttle.Set(0))
	free := sync()
	require.Less(t, free, 500*time.Millisecond)
	require.NoError(t, throttle.Close())
	require.NoError(t, throttle.Close())
	left, err := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/blkio/fairlock-lab-%d-*", os.Getpid()))
	require.NoError(t, err)
	require.Empty(t, left)

	_, err = lab.NewThrottle("/proc")
	require.ErrorContains(t, err, "no disk")
}

// syncOften writes and syncs ten times for each line, and answers how long that took.
func syncOften() error {
	f, err := os.Create(filepath.Join(os.Getenv("LAB_TEST_DIR"), "x"))
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		begin := time.Now()
		for range 10 {
			if _, err := f.WriteAt(make([]byte, 4096), 0); err != nil {
				return err
			}
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				return err
			}
		}
		if err := out.Encode(time.Since(begin)); err != nil {
			return err
		}
	}
	return f.Close()
}
