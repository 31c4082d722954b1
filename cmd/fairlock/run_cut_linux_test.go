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

// envCuts is how many holders TestCutOff cuts off. Defaults to 3. For a hundred, ten at a time:
//
//	FAIRLOCK_CUTS=100 go test ./cmd/fairlock -count=1 -v -parallel 10 -run TestCutOff
const envCuts = "FAIRLOCK_CUTS"

// treeScript is a command that does not want to end: all of it is deaf to what asks it to. Each process notes its number, and
// when it was started, so that a number that was given anew is not taken for it.
const treeScript = `
trap '' TERM HUP INT
note() { read -r s < /proc/$$/stat; set -- ${s##*) }; echo "$$ ${20}" >> tree; }
case $1 in
child)        # leads; the others are its own
	echo $FAIRLOCK_OWNER > owner
	note
	sh tree.sh stay &
	setsid sh tree.sh stay &
	setsid sh -c 'sh tree.sh stay & exit 0'    # a daemon: its parent is gone at once
	sh tree.sh chain 40 &
	sh tree.sh comet &
	wait; wait; wait ;;
stay)
	note; exec sleep 1000 ;;
chain)        # each in a session of its own, under the one before
	note
	if [ $2 = 0 ]; then exec sleep 1000; fi
	setsid sh tree.sh chain $(($2 - 1)) &
	wait ;;
comet)        # never the same process for long; it leaves a trail
	echo >> trail
	sleep 0.1
	setsid sh tree.sh comet & ;;
esac
`

// treeSize is how many of them note themselves.
const treeSize = 1 + 3 + 41

// checkScript is the next holder's command. It lists what it finds alive of the other one's: first, with nothing but its shell,
// those that are noted; then every process that has in its environment which session it ran under. A comet can pass between two
// looks, but its trail would grow.
const checkScript = `
: > $1
trail=$(wc -c < trail)
while read -r pid start; do
	s=
	{ read -r s < /proc/$pid/stat; } 2>/dev/null
	set -- "$1" "$2" ${s##*) }
	if [ "${22}" = $start ] && [ $3 != Z ]; then echo noted:$pid >> $1; fi
done < tree
grep -lzsx "FAIRLOCK_OWNER=$(cat owner)" /proc/[0-9]*/environ >> $1
if [ $2 = next ]; then
	sleep 0.5
	if [ $(wc -c < trail) != $trail ]; then echo trail >> $1; fi
fi
echo over >> $1
`

// TestCutOff is the promise of run: a holder is cut off from MongoDB, and of all that its command has started nothing is there any
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
			d, n := cutOff(b, i%2 == 0)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, d)
			lived += n
		})
	}
}

// cutOff is one such holder. What it is sent vanishes, or all its connections end and no new one can be made.
func cutOff(b *bench, vanish bool) (took time.Duration, lived int) {
	require.NoError(b, os.WriteFile(b.path("tree.sh"), []byte(treeScript), 0o600))
	require.NoError(b, os.WriteFile(b.path("check.sh"), []byte(checkScript), 0o600))
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
	if vanish {
		network.Cut()
	} else {
		network.Close()
	}
	next.exits(0)
	took = time.Since(cut)
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
