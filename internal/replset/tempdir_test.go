package replset

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSweep(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	mine, release, err := tempDir(root)
	require.NoError(t, err)
	defer release()

	dead, releaseDead, err := tempDir(root)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dead, "m0", "db"), 0o700))
	releaseDead() // what the kernel does when the owner dies

	young := filepath.Join(root, tempPrefix+"young")
	old := filepath.Join(root, tempPrefix+"old")
	other := filepath.Join(root, "other")
	for _, dir := range []string{young, old, other} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	past := time.Now().Add(-2 * unlockedAge)
	require.NoError(t, os.Chtimes(old, past, past))
	require.NoError(t, os.Chtimes(other, past, past))

	require.Equal(t, 2, sweep(root))
	require.NoDirExists(t, dead)
	require.NoDirExists(t, old)
	require.DirExists(t, mine)
	require.DirExists(t, young)
	require.DirExists(t, other)
	require.Zero(t, sweep(root))
}

func TestPortPool(t *testing.T) {
	t.Parallel()
	p := portPool{next: 27000 - firstPort, taken: map[int]bool{}}
	a, err := p.pick()
	require.NoError(t, err)
	require.GreaterOrEqual(t, a, 27100, "people's own servers are left alone")
	p.next = a - firstPort
	b, err := p.pick()
	require.NoError(t, err)
	require.Greater(t, b, a, "a port in use here is not handed out")
	p.giveBack(a)
	p.next = a - firstPort
	c, err := p.pick()
	require.NoError(t, err)
	require.Equal(t, a, c)
}
