package main

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// envCuts is how many holders TestCutOff cuts off. Defaults to 3. For a hundred, five at a time (more than two cores can start at once lose their lease
// before anything is done to them):
//
//	FAIRLOCK_CUTS=100 go test ./cmd/fairlock -count=1 -v -parallel 5 -run TestCutOff
const envCuts = "FAIRLOCK_CUTS"

// treeSize is how many processes of testdata/cut/tree.sh note themselves.
const treeSize = 1 + 3 + 41

// TestCutOff is the promise of run: a holder is cut off from MongoDB, or stopped, and of all that its command has started nothing is there any
// more when the command of the next one starts. That one looks for itself; no clock is compared.
func TestCutOff(t *testing.T) {
	t.Parallel()
	cuts := 3
	if s := os.Getenv(envCuts); s != "" {
		var err error
		cuts, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	var mu sync.Mutex // guards what follows
	var took []time.Duration
	lived := 0
	t.Cleanup(func() {
		slices.Sort(took)
		if len(took) > 0 {
			t.Logf("%d of %d holders cut off and followed, by one who found none of their %d processes, nor one of those that come and go; from cut to end of the next: %v to %v",
				len(took), cuts, lived, took[0], took[len(took)-1])
		}
	})
	for i := range cuts {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			b := newBench(t)
			d, n := cutOff(b, harm(i%3))
			mu.Lock()
			defer mu.Unlock()
			took = append(took, d)
			lived += n
		})
	}
}

// harm is what is done to a holder.
type harm int

const (
	vanish harm = iota // what it is sent vanishes
	hangUp             // all its connections end, and no new one can be made
	freeze             // it is stopped, and its command is not
)

// cutOff is one such holder.
func cutOff(b *bench, how harm) (took time.Duration, lived int) {
	require.NoError(b, os.CopyFS(b.dir, os.DirFS("testdata/cut")))
	network, uri := newCable(b)
	holder := b.start("run", "--uri", uri, "--ttl", brief, "job", "--", "sh", "tree.sh", "child")
	b.Cleanup(b.fell)
	b.eventually(func() bool {
		noted, _ := os.ReadFile(b.path("tree"))
		return strings.Count(string(noted), "\n") == treeSize
	}, "the tree")
	b.known("job")
	next := b.start("run", "--ttl", brief, "job", "--", "sh", "check.sh", "found", "next")
	b.queued("job", 1)

	// The check sees them while they live.
	before := b.check("before")
	lived = slices.IndexFunc(before, func(s string) bool { return !strings.HasPrefix(s, "noted:") })
	require.Equal(b, treeSize, lived)
	require.GreaterOrEqual(b, len(before), 2*treeSize, "their environments are read")
	trail := b.readAll("trail")
	b.eventually(func() bool { return b.readAll("trail") != trail }, "the comet")
	require.False(b, b.exists("found"))

	cut := time.Now()
	switch how {
	case vanish:
		network.Cut()
	case hangUp:
		network.Close()
	case freeze:
		holder.signal(syscall.SIGSTOP)
	}
	next.exits(0)
	took = time.Since(cut)
	if how == freeze {
		holder.signal(syscall.SIGCONT)
	}
	require.Empty(b, b.found("found"), "processes of a command ran beside the next holder's: %s", holder.errors())
	holder.exits(76)
	require.Regexp(b, cutOffSaid, holder.errors())
	return took.Round(time.Millisecond), lived
}

// found is what the check has listed.
func (b *bench) found(file string) []string {
	b.Helper()
	lines := strings.Fields(b.readAll(file))
	require.NotEmpty(b, lines)
	require.Equal(b, "over", lines[len(lines)-1])
	return lines[:len(lines)-1]
}

func (b *bench) readAll(file string) string {
	b.Helper()
	text, err := os.ReadFile(b.path(file))
	require.NoError(b, err)
	return string(text)
}

// check runs the next holder's command.
func (b *bench) check(file string) []string {
	b.Helper()
	cmd := exec.Command("sh", "check.sh", file, "before")
	cmd.Dir = b.dir
	require.NoError(b, cmd.Run())
	return b.found(file)
}

// fell ends what a failure has left standing: the comet ends by itself when its script is gone.
func (b *bench) fell() {
	require.NoError(b, os.Remove(b.path("tree.sh")))
	for _, s := range b.check("left") {
		if pid, ok := strings.CutPrefix(s, "noted:"); ok {
			n, err := strconv.Atoi(pid)
			require.NoError(b, err)
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
}
