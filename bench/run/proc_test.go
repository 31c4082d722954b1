package run

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// usage is what the kernel says of this process by another way.
func usage(t *testing.T) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Short threads count, also when they have ended.
func TestCPUOfEndedThreads(t *testing.T) {
	before, err := CPU(os.Getpid())
	require.NoError(t, err)
	low := usage(t)
	for range 20 {
		var ended sync.WaitGroup
		ended.Go(func() {
			runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
			for begun := time.Now(); time.Since(begun) < 2*time.Millisecond; {
			}
		})
		ended.Wait()
	}
	after, err := CPU(os.Getpid())
	require.NoError(t, err)
	require.InDelta(t, (usage(t) - low).Seconds(), (after - before).Seconds(), 0.01)
	require.Greater(t, after-before, 10*time.Millisecond)
}

func TestCPUOfOthers(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	require.NoError(t, cmd.Start())
	var used time.Duration
	var err error
	// The kernel counts when it takes the process off the processor, at the latest when it begins to sleep.
	require.Eventually(t, func() bool {
		used, err = CPU(cmd.Process.Pid)
		return err != nil || used > 0
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, err)
	require.Less(t, used, time.Second)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	_, err = CPU(cmd.Process.Pid)
	require.Error(t, err)
	require.Len(t, CPUs([]int{os.Getpid(), cmd.Process.Pid}), 1)
}

func TestGrown(t *testing.T) {
	t.Parallel()
	type used = map[int]time.Duration
	require.Equal(t, time.Duration(3), grown(used{1: 5, 2: 7}, used{2: 8, 1: 7}), "by id, whatever the order")
	require.Equal(t, time.Duration(4), grown(used{1: 5}, used{1: 5, 3: 4}), "one that has begun since")
	require.Equal(t, time.Duration(1), grown(used{1: 5, 2: 9}, used{1: 6}), "one that has ended")
	require.Equal(t, time.Duration(2), grown(used{1: 5}, used{1: 2}), "an id that was used again")
}
