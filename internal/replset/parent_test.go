//go:build linux || darwin

package replset_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/replset"
)

// childEnv makes this test binary the parent of a set: see TestMain.
const childEnv = "REPLSET_TEST_CHILD"

// childMain starts a set, says on standard output which processes it has, and
// lives until it is killed, or until the test ends and its input closes.
func childMain() int {
	s, err := replset.Start(context.Background(), replset.Options{Members: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if os.Getenv(childEnv) == "paused" {
		if err := s.Members()[0].Pause(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode([]int{s.Members()[0].PID(), s.GuardPID()}); err != nil {
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// TestParentKilled checks I7 and I8: the parent gets SIGKILL, so it runs no line
// of code any more.
func TestParentKilled(t *testing.T) {
	t.Parallel()
	// Here, not twice at the same time in the children, and not on their time.
	_, err := replset.Find(testCtx(t), nil)
	require.NoError(t, err)
	for _, state := range []string{"running", "paused"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			tmp := t.TempDir()
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), childEnv+"="+state, "TMPDIR="+tmp)
			child.Stderr = os.Stderr
			stdin, err := child.StdinPipe()
			require.NoError(t, err)
			defer func() { _ = stdin.Close() }()
			stdout, err := child.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, child.Start())
			line, err := bufio.NewReader(stdout).ReadBytes('\n')
			require.NoError(t, err)
			var pids []int
			require.NoError(t, json.Unmarshal(line, &pids))
			require.Len(t, pids, 2)
			for _, pid := range pids {
				require.False(t, gone(pid))
			}
			require.Zero(t, replset.Sweep(tmp), "the folder of a live parent stays")

			begin := time.Now()
			require.NoError(t, child.Process.Kill())
			require.Error(t, child.Wait())
			for _, pid := range pids {
				require.Eventually(t, func() bool { return gone(pid) }, 10*time.Second, 5*time.Millisecond)
			}
			t.Logf("servers gone %v after the kill", time.Since(begin))
			require.Equal(t, 1, replset.Sweep(tmp))
			left, err := filepath.Glob(filepath.Join(tmp, "*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// gone is true for processes that have ended. Those of a killed parent are
// reaped by whoever adopts them, which in a container may be nobody, so a zombie
// counts as ended.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err == nil {
		_, rest, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
	}
	return syscall.Kill(pid, 0) != nil
}
