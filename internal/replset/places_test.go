//go:build linux || darwin

package replset_test

import (
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/replset"
)

// TestPlaces: a member goes where Host, DBPath and Launch say, again at a restart, and is known by that address.
func TestPlaces(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	var launched atomic.Int32
	s := replset.ForTest(t, replset.Options{
		Members: 1,
		Host:    func(int) string { return "localhost" },
		DBPath:  func(int) string { return data },
		Launch: func(member int, cmd *exec.Cmd) error {
			require.Zero(t, member)
			launched.Add(1)
			cmd.Env = append(cmd.Environ(), "REPLSET_TEST=here")
			return cmd.Start()
		},
	})
	m := s.Members()[0]
	require.Contains(t, m.Addr(), "localhost:")
	require.Contains(t, s.URI(), m.Addr())
	require.FileExists(t, filepath.Join(data, "WiredTiger"))
	require.NoDirExists(t, filepath.Join(s.Dir(), "m0", "db"))
	require.NoError(t, m.Restart(testCtx(t)))
	require.NoError(t, s.WaitHealthy(testCtx(t)))
	require.EqualValues(t, 2, launched.Load())
}
