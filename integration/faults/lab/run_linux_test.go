package lab_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/integration/faults/lab"
	"github.com/fairlock/fairlock/internal/cable"
	"github.com/fairlock/fairlock/internal/replset"
)

// TestRunIsCutOff: fairlock run is on a host whose packets are lost from one moment on, acknowledgements and refusals too. The next
// holder's command, on another host, finds nothing of what the first one's has started. The scripts are those of TestCutOff in cmd/fairlock,
// which has a proxy for a network.
func TestRunIsCutOff(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	bin := filepath.Join(t.TempDir(), "fairlock")
	require.NoError(t, buildCLI(ctx, bin))
	set := replset.ForTest(t, replset.Options{Members: 3})
	client, err := mongo.Connect(options.Client().ApplyURI(set.URI()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Disconnect(context.Background())) })
	m, err := fairlock.New(ctx, client.Database("app"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close(context.Background())) })
	primary, err := set.WaitPrimary(ctx)
	require.NoError(t, err)
	// The server's host, as the others see it.
	n, hosts := newNetwork(t, 4, 1)
	var l net.Listener
	require.NoError(t, hosts[0].Do(func() (err error) {
		l, err = net.Listen("tcp4", net.JoinHostPort(hosts[0].IP(), "0"))
		return err
	}))
	door := cable.From(l, primary.Addr())
	t.Cleanup(door.Close)
	uri := "mongodb://" + door.Addr() + "/app?directConnection=true"

	for i, host := range hosts[1:] {
		name := "job " + strconv.Itoa(i)
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS("../../../cmd/fairlock/testdata/cut")))
		read := func(file string) string {
			text, _ := os.ReadFile(filepath.Join(dir, file))
			return string(text)
		}
		run := func(uri string, args ...string) *exec.Cmd {
			cmd := exec.CommandContext(ctx, bin, append([]string{"run", "--ttl", "3s", "--uri", uri, name, "sh"}, args...)...)
			cmd.Dir = dir
			return cmd
		}
		inspect := func(ok func(*fairlock.LockInfo) bool) {
			require.Eventually(t, func() bool {
				info, err := m.Inspect(ctx, name)
				return err == nil && ok(info)
			}, limit, 5*time.Millisecond)
		}
		holder := run(uri, "tree.sh", "child")
		var said strings.Builder
		holder.Stderr = &said
		require.NoError(t, host.Start(holder))
		inspect(func(info *fairlock.LockInfo) bool { return len(info.Holders) == 1 && info.Holders[0].Owner != nil })
		require.Eventually(t, func() bool { return strings.Count(read("tree"), "\n") == 45 }, limit, 5*time.Millisecond)
		next := run(strings.Replace(set.URI(), "/?", "/app?", 1), "check.sh", "found", "next")
		require.NoError(t, next.Start())
		inspect(func(info *fairlock.LockInfo) bool { return len(info.Waiters) == 1 })
		require.NoFileExists(t, filepath.Join(dir, "found"))

		n.Set(hosts[0], host, lab.Link{Down: true})
		require.NoError(t, next.Wait())
		require.Error(t, holder.Wait()) // said is complete
		require.Equal(t, "over\n", read("found"), "%s", said.String())
		require.Equal(t, 76, holder.ProcessState.ExitCode(), "%s", said.String())
	}
}
