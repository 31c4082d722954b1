package servers_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/peers/servers"
)

// childEnv makes the test binary start the server of that name, tell its processes, and wait to be killed.
const childEnv = "FAIRLOCK_BENCH_SERVER"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		s, err := servers.Start(context.Background(), name)
		if err != nil {
			panic(err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(s.PIDs()); err != nil {
			panic(err)
		}
		select {}
	}
	os.Exit(m.Run())
}

// However the process that started servers ends, they end too.
func TestServersEndWithTheirParent(t *testing.T) {
	for _, name := range []string{"redis", "etcd", "postgres", "zookeeper"} {
		t.Run(name, func(t *testing.T) {
			// Not t.TempDir, into which PostgreSQL, which is another user, may not look.
			dir, err := os.MkdirTemp("", "fairlock-bench-test-")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
			require.NoError(t, os.Chmod(dir, 0o755))
			self, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), childEnv+"="+name, "TMPDIR="+dir)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			var pids []int
			err = json.NewDecoder(out).Decode(&pids)
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait() // "killed"
			require.NoError(t, err)
			require.NotEmpty(t, pids)
			for _, pid := range pids {
				require.Eventually(t, func() bool { return gone(pid) }, 10*time.Second, 20*time.Millisecond, "process %d is still there", pid)
			}
		})
	}
}

// gone is also true for one that nobody has waited for yet.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	link, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return err != nil || link == ""
}

func TestStopRemovesAll(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := servers.Start(t.Context(), "redis")
	require.NoError(t, err)
	pids := s.PIDs()
	require.Len(t, pids, 1)
	require.NoError(t, s.Stop(t.Context()))
	require.NoError(t, s.Stop(t.Context()))
	require.True(t, gone(pids[0]))
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestUnknownServer(t *testing.T) {
	_, err := servers.Start(t.Context(), "abacus")
	require.ErrorContains(t, err, "abacus")
}
