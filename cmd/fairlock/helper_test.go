//go:build linux || darwin || freebsd

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"

	"github.com/fairlock/fairlock"
	groupguard "github.com/fairlock/fairlock/internal/guard"
)

// brief is the lease of those that shall lose it. A shorter one is lost to a busy machine before.
const brief = "3s"

// bench is what a test has: a database, a folder, and a manager of its own that plays the others.
type bench struct {
	*testing.T
	uri string // with the database in it
	db  *mongo.Database
	dir string
	m   *fairlock.Manager
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	b := &bench{T: t, dir: t.TempDir()}
	b.db, b.uri = newDatabase(t.Cleanup)
	var err error
	// A waiter's looks at those ahead are a tenth of its lease apart.
	b.m, err = fairlock.New(b.ctx(), b.db, &fairlock.Config{Label: "test", TTL: 6 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), long)
		defer cancel()
		require.NoError(t, b.m.Close(ctx))
	})
	return b
}

func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), long)
	b.Cleanup(cancel)
	return ctx
}

// lock takes a lock as somebody else.
func (b *bench) lock(name string) *fairlock.Lock {
	b.Helper()
	lock, err := b.m.Lock(b.ctx(), name)
	require.NoError(b, err)
	return lock
}

// unlock gives it back.
func (b *bench) unlock(lock *fairlock.Lock) {
	b.Helper()
	require.NoError(b, lock.Unlock(b.ctx()))
}

// free asserts that the lock can be had at once.
func (b *bench) free(name string) {
	b.Helper()
	lock, err := b.m.TryLock(b.ctx(), name)
	require.NoError(b, err)
	b.unlock(lock)
}

// eventually waits for what tells nobody that it has happened.
func (b *bench) eventually(f func() bool, what string) {
	b.Helper()
	require.Eventually(b, f, long, 5*time.Millisecond, what)
}

// queued waits until n wait for the lock.
func (b *bench) queued(name string, n int) {
	b.Helper()
	b.eventually(func() bool {
		info, err := b.m.Inspect(b.ctx(), name)
		return err == nil && len(info.Waiters) == n
	}, "queue of "+name)
}

// known waits until the database shows who holds the lock: a holder that vanishes before costs others their own lease.
func (b *bench) known(name string) {
	b.Helper()
	b.eventually(func() bool {
		info, err := b.m.Inspect(b.ctx(), name)
		return err == nil && len(info.Holders) == 1 && info.Holders[0].Owner != nil
	}, "holder of "+name)
}

// endSession ends the session that FAIRLOCK_OWNER names in the file owner, as an operator would by hand.
func (b *bench) endSession() {
	b.Helper()
	res, err := b.db.Collection("fairlock.sessions").UpdateOne(b.ctx(), bson.D{{Key: "_id", Value: b.read("owner")}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "ended", Value: true}, {Key: "endedAt", Value: time.Now()}}}})
	require.NoError(b, err)
	require.EqualValues(b, 1, res.ModifiedCount)
}

func (b *bench) path(file string) string { return filepath.Join(b.dir, file) }

func (b *bench) exists(file string) bool {
	_, err := os.Stat(b.path(file))
	return err == nil
}

// read is the content of a file that a command has written, when it is complete: a line.
func (b *bench) read(file string) string {
	b.Helper()
	var text []byte
	b.eventually(func() bool {
		text, _ = os.ReadFile(b.path(file))
		return strings.HasSuffix(string(text), "\n")
	}, "line in "+file)
	return strings.TrimSpace(string(text))
}

func (b *bench) write(file string) {
	b.Helper()
	require.NoError(b, os.WriteFile(b.path(file), nil, 0o600))
}

// pid is the process id that a command has written.
func (b *bench) pid(file string) int {
	b.Helper()
	pid, err := strconv.Atoi(b.read(file))
	require.NoError(b, err)
	return pid
}

// alive reports whether the process runs; a zombie does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !os.IsNotExist(err) || !exists("/proc/self/stat")
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// proc is a running fairlock.
type proc struct {
	b      *bench
	cmd    *exec.Cmd
	stdout string // files: a pipe would be kept open by what the command leaves behind
	stderr string
	done   chan struct{}
}

var procs atomic.Int64

// start starts fairlock in the bench's folder, with its database in FAIRLOCK_URI.
func (b *bench) start(args ...string) *proc {
	b.Helper()
	return b.startCmd(exec.Command("fairlock", args...), nil)
}

// startCmd starts a command that is or becomes fairlock, with more in its environment. It has a standard output already, or gets a
// file. It ends with the test, and with this process however that ends: a watch would otherwise stay for ever.
func (b *bench) startCmd(cmd *exec.Cmd, env []string) *proc {
	b.Helper()
	n := procs.Add(1)
	p := &proc{b: b, cmd: cmd, done: make(chan struct{})}
	p.stdout, p.stderr = fmt.Sprintf("stdout.%d", n), fmt.Sprintf("stderr.%d", n)
	p.cmd.Dir = b.dir
	p.cmd.Env = append(append(os.Environ(), "FAIRLOCK_URI="+b.uri), env...)
	g, err := groupguard.Start()
	require.NoError(b, err)
	cmd.SysProcAttr = g.Attr()
	stdout, err := os.Create(b.path(p.stdout))
	require.NoError(b, err)
	stderr, err := os.Create(b.path(p.stderr))
	require.NoError(b, err)
	if p.cmd.Stdout == nil {
		p.cmd.Stdout = stdout
	}
	p.cmd.Stderr = stderr
	require.NoError(b, p.cmd.Start())
	_, _ = stdout.Close(), stderr.Close()
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	b.Cleanup(func() {
		g.Release()
		<-p.done
		<-g.Done()
		if b.Failed() {
			b.Logf("%q: %v: %s", cmd.Args, p.cmd.ProcessState, p.errors())
		}
	})
	return p
}

func (p *proc) signal(sig syscall.Signal) {
	p.b.Helper()
	require.NoError(p.b, p.cmd.Process.Signal(sig))
}

// code waits for the end and is the exit code; -1 is a death by signal.
func (p *proc) code() int {
	p.b.Helper()
	select {
	case <-p.done:
	case <-time.After(long):
		require.FailNow(p.b, "fairlock does not end", "stderr: %s", p.errors())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *proc) output() string {
	text, _ := os.ReadFile(p.b.path(p.stdout))
	return string(text)
}

func (p *proc) errors() string {
	text, _ := os.ReadFile(p.b.path(p.stderr))
	return string(text)
}

// exits asserts the exit code.
func (p *proc) exits(code int) {
	p.b.Helper()
	got := p.code()
	require.Equal(p.b, code, got, "stdout: %s\nstderr: %s", p.output(), p.errors())
}

// hostOf is the first host of a URI.
func hostOf(t *testing.T, uri string) string {
	t.Helper()
	cs, err := connstring.Parse(uri)
	require.NoError(t, err)
	return cs.Hosts[0]
}
