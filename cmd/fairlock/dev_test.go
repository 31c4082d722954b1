//go:build linux || darwin || freebsd

package main

import (
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startDev returns a running dev and the URI that it has printed, alone, on standard output.
func startDev(b *bench, args ...string) (*proc, string) {
	b.Helper()
	p := b.start(append([]string{"dev"}, args...)...)
	// A start takes its time where many tests run; replset bounds it.
	require.Eventually(b, func() bool { return strings.HasSuffix(p.output(), "\n") }, 2*time.Minute, 10*time.Millisecond, "the URI")
	uri := strings.TrimSuffix(p.output(), "\n")
	require.Regexp(b, `^mongodb://127\.0\.0\.1:\d+[^ ]*/\?replicaSet=fairlock$`, uri)
	require.Contains(b, p.errors(), "export FAIRLOCK_URI='"+uri+"'")
	return p, uri
}

// TestDev: the replica set is of use, and ends with dev, which then has not failed.
func TestDev(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			b := newBench(t)
			p, uri := startDev(b)
			b.start("run", "--uri", uri, "job", "--", "true").exits(0)
			p.signal(sig)
			p.exits(0)
			require.Equal(t, uri+"\n", p.output())
			_, err := net.Dial("tcp", hostOf(t, uri))
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
		})
	}
}

// TestDevKilled: the servers end with dev also when it is killed.
func TestDevKilled(t *testing.T) {
	b := newBench(t)
	p, uri := startDev(b, "--members", "3")
	require.Equal(t, 2, strings.Count(uri, ","))
	p.signal(syscall.SIGKILL)
	require.Equal(t, -1, p.code())
	b.eventually(func() bool {
		conn, err := net.Dial("tcp", hostOf(t, uri))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, "the servers are gone")
}

// TestDevWithoutMongod: an explicit wish that cannot be met is an error that says so.
func TestDevWithoutMongod(t *testing.T) {
	b := newBench(t)
	p := b.startCmd(exec.Command("fairlock", "dev"), []string{"FAIRLOCK_MONGOD=/no/such/mongod"})
	p.exits(69)
	require.Contains(t, p.errors(), "/no/such/mongod")
	require.Empty(t, p.output())
}
