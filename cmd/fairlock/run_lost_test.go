//go:build linux || darwin || freebsd

package main

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

// begin is the start of a command that can be hurt: it says which session it has.
const begin = `echo $FAIRLOCK_OWNER > owner; `

// forever does nothing for ever.
const forever = `while :; do sleep 0.02; done`

// TestLostSession: somebody ends the session by hand. What happens then is said by --on-lost.
func TestLostSession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags  []string
		script string
		code   int
		said   string
	}{
		"term, and it ends with 0":  {nil, `trap 'echo > told; exit 0' TERM; ` + begin + forever, 76, "SIGTERM"},
		"term, and it ends with 9":  {nil, `trap 'exit 9' TERM; ` + begin + forever, 76, "SIGTERM"},
		"term, and it is killed":    {nil, begin + `exec sleep 100`, 76, "SIGTERM"},
		"term, and it does not end": {nil, `trap '' TERM; ` + begin + forever, 76, "SIGKILL in "},
		"kill":                      {[]string{"--on-lost=kill"}, begin + forever, 76, "killing"},
		"signal": {[]string{"--on-lost", "signal:usr1", "--kill-after=100ms"},
			`trap 'echo > told; exit 0' USR1; ` + begin + forever, 76, "SIGUSR1"},
		"stopped": {nil, `trap 'exit 0' TERM; ` + begin + `kill -STOP $$; ` + forever, 76, "SIGTERM"},
		"ignore": {[]string{"--on-lost=ignore"},
			begin + `while ! [ -e go ]; do sleep 0.02; done; exit 3`, 3, "--on-lost=ignore"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			flags := append(append([]string{"run", "--ttl", brief}, c.flags...), "job", "--", "sh", "-c", c.script)
			p := b.start(flags...)
			b.read("owner")
			b.endSession()
			if c.code != 76 {
				b.eventually(func() bool { return p.errors() != "" }, "fairlock notices")
				b.write("go")
			}
			p.exits(c.code)
			require.Contains(t, p.errors(), "session ended by another process")
			require.Contains(t, p.errors(), c.said)
			b.unlock(b.lock("job"))
		})
	}
}

// TestLostLease is what the lease is for: fairlock is cut off from MongoDB, and everything that the command has started, deaf to
// SIGTERM as it is, is gone before the next in line has the lock.
func TestLostLease(t *testing.T) {
	b := newBench(t)
	network, uri := newCable(b)
	p := b.start("run", "--uri", uri, "--ttl", brief, "job", "--", "sh", "-c", deaf())
	pids := b.deafPIDs()
	b.known("job")
	b.queuedBehind("job", func() {
		network.Cut()
	}, func() {
		for _, pid := range pids {
			require.False(t, alive(pid), "a process of the command runs beside the next holder")
		}
	})
	p.exits(76)
	require.Regexp(t, cutOffSaid, p.errors())
}

// cutOffSaid is why a holder that is cut off has lost. The ticket can be in the database and its acknowledgement be what was cut.
const cutOffSaid = "lost: (lease not renewed|ticket not acknowledged) in time"

// queuedBehind waits in line as somebody else, calls hurt meanwhile, and check in the moment of the grant.
func (b *bench) queuedBehind(name string, hurt, check func()) {
	b.Helper()
	type result struct {
		lock *fairlock.Lock
		err  error
	}
	granted := make(chan result, 1)
	go func() {
		lock, err := b.m.Lock(b.ctx(), name)
		granted <- result{lock, err}
	}()
	b.queued(name, 1)
	hurt()
	got := <-granted
	require.NoError(b, got.err)
	check()
	b.unlock(got.lock)
}

// deaf is a command that hears nothing, with one that has left its process group, which only Linux has a means against.
func deaf() string {
	setsid := "setsid"
	if runtime.GOOS != "linux" {
		setsid = ""
	}
	return begin + `trap 'echo > told' TERM HUP
` + setsid + ` sh -c 'trap "" TERM HUP; echo $$ > escaped; exec sleep 100' &
sh -c 'trap "" TERM HUP; echo $$ > grandchild; exec sleep 100' &
echo $$ > child
` + forever
}

// deafPIDs are its processes.
func (b *bench) deafPIDs() []int { return []int{b.pid("child"), b.pid("grandchild"), b.pid("escaped")} }

// TestLostWhileStopped: fairlock itself was stopped for longer than its lease. Its guard kills what the command has started before the next in line has the lock,
// and not while fairlock could have gone on.
func TestLostWhileStopped(t *testing.T) {
	b := newBench(t)
	p := b.start("run", "--ttl", brief, "job", "--", "sh", "-c", deaf())
	pids := b.deafPIDs()
	b.known("job")
	var stopped, died time.Time
	b.queuedBehind("job", func() {
		p.signal(syscall.SIGSTOP)
		stopped = time.Now()
		b.eventually(func() bool { return !alive(pids[0]) }, "the command is gone")
		died = time.Now()
	}, func() {
		for _, pid := range pids {
			require.False(t, alive(pid), "a process of the command runs beside the next holder")
		}
	})
	// Renewed a third of the lease ago at most, trusted for half of it, and the command's time is two fifths.
	require.Greater(t, died.Sub(stopped), 3*time.Second*(15-10+12)/30)
	p.signal(syscall.SIGCONT)
	p.exits(76)
	require.Contains(t, p.errors(), "killing the command")
	require.False(t, b.exists("told"))
}

// TestStoppedBriefly: fairlock is stopped, and the lease is not over when it goes on.
func TestStoppedBriefly(t *testing.T) {
	b := newBench(t)
	p := b.start("run", "job", "--", "sh", "-c", `echo $$ > child; while ! [ -e go ]; do sleep 0.02; done; exit 3`)
	child := b.pid("child")
	b.known("job")
	p.signal(syscall.SIGSTOP)
	b.free("another") // some time of others
	require.True(t, alive(child))
	p.signal(syscall.SIGCONT)
	b.write("go")
	p.exits(3)
	require.Empty(t, p.errors())
	b.free("job")
}

// TestLostWhileMute: fairlock hangs in a warning that nobody reads, and so does not end its command.
func TestLostWhileMute(t *testing.T) {
	b := newBench(t)
	network, uri := newCable(b)
	require.NoError(t, syscall.Mkfifo(b.path("full"), 0o600))
	full, err := os.OpenFile(b.path("full"), os.O_RDWR|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	defer func() { _ = full.Close() }()
	raw, err := full.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Write(func(fd uintptr) bool {
		for err == nil {
			_, err = syscall.Write(int(fd), []byte{'x'})
		}
		return true
	}))
	require.ErrorIs(t, err, syscall.EAGAIN)
	p := b.startCmd(exec.Command("sh", "-c", `exec fairlock run --uri "$1" --ttl "$2" job -- sh -c "$3" 2>full`, "sh", uri, brief, deaf()), nil)
	pids := b.deafPIDs()
	b.known("job")
	b.queuedBehind("job", network.Cut, func() {
		for _, pid := range pids {
			require.False(t, alive(pid), "a process of the command runs beside the next holder")
		}
	})
	require.False(t, b.exists("told"), "it was stuck before it could tell")
	go func() { _, _ = io.Copy(io.Discard, full) }()
	p.exits(76)
}

// TestMaxHold: the command's time is limited, and what is left of it is waited for.
func TestMaxHold(t *testing.T) {
	b := newBench(t)
	p := b.start("run", "--ttl", brief, "--max-hold", "200ms", "job", "--", "sh", "-c", `trap 'echo > told; exit 0' TERM; `+forever)
	p.exits(76)
	require.Contains(t, p.errors(), "maximum hold reached")
	require.True(t, b.exists("told"))
	b.unlock(b.lock("job"))
}

// TestNotReleased: MongoDB is out of reach when the command ends. Its exit code counts, after a warning, and not much later.
func TestNotReleased(t *testing.T) {
	b := newBench(t)
	network, uri := newCable(b)
	p := b.start("run", "--uri", uri, "--ttl", brief, "--kill-after", "0s", "job", "--", "sh", "-c",
		begin+`while ! [ -e go ]; do sleep 0.02; done; exit 3`)
	b.read("owner")
	b.known("job")
	network.Cut()
	b.write("go")
	began := time.Now()
	p.exits(3)
	require.Less(t, time.Since(began), closeLimit)
	require.Contains(t, p.errors(), `lock "job" could not be given back`)
	b.unlock(b.lock("job"))
}

// TestInterruptedRelease: a signal ends the wait for a release that does not come.
func TestInterruptedRelease(t *testing.T) {
	b := newBench(t)
	network, uri := newCable(b)
	p := b.start("run", "-v", "--uri", uri, "job", "--", "sh", "-c", begin+`while ! [ -e go ]; do sleep 0.02; done; exit 3`)
	b.read("owner")
	b.known("job")
	network.Cut()
	b.write("go")
	b.eventually(func() bool { return strings.Contains(p.errors(), "command ended") }, "the command ends")
	p.signal(syscall.SIGINT)
	p.exits(3)
}
