//go:build linux || darwin || freebsd

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

// TestWatchLines: a line for each change, with what has changed; it ends by a signal, and has not failed.
func TestWatchLines(t *testing.T) {
	b := newBench(t)
	w := b.start("watch", "--interval", "100ms")
	one := b.start("watch", "--interval", "100ms", "job")
	js := b.start("watch", "--json", "--interval", "100ms")
	lock := b.lock("job")
	sees := func(p *proc, text string) {
		t.Helper()
		b.eventually(func() bool { return strings.Contains(p.output(), text) }, text+" in "+p.stdout)
	}
	for _, p := range []*proc{w, one} {
		sees(p, fmt.Sprintf(" job held token=%d by=test@", lock.Token()))
	}
	waiter := b.start("run", "--label", "behind", "job", "--", "true")
	for _, p := range []*proc{w, one} {
		sees(p, " waiting=1\n")
	}
	b.unlock(lock)
	waiter.exits(0)
	for _, p := range []*proc{w, one} {
		sees(p, " job free waiting=0\n")
	}
	sees(js, `"state":"free"`)
	require.Regexp(t, `(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z job held token=\d+ by=test@\S+:\d+ waiting=0$`, w.output())

	w.signal(syscall.SIGINT)
	one.signal(syscall.SIGTERM)
	js.signal(syscall.SIGHUP)
	for _, p := range []*proc{w, one, js} {
		p.exits(0)
		require.Empty(t, p.errors())
		require.NotContains(t, p.output(), "\x1b")
	}
	last := change{}
	for line := range strings.Lines(js.output()) {
		var c change
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(&c))
		require.Equal(t, "job", c.Name)
		require.NotNil(t, c.Holders)
		require.False(t, c.Time.Before(last.Time))
		last = c
	}
	require.Equal(t, "free", last.State)
	require.Zero(t, last.Held+last.Waiting)
}

// TestWatchOutage: a database that is away is told once, and waited for.
func TestWatchOutage(t *testing.T) {
	b := newBench(t)
	cable, uri := newCable(b)
	lock := b.lock("job")
	defer b.unlock(lock)
	w := b.start("watch", "--interval", "100ms", "--uri", uri)
	b.eventually(func() bool { return strings.Contains(w.output(), " job held") }, "the lock")
	cable.Cut()
	b.eventually(func() bool { return strings.Contains(w.errors(), "trying again") }, "the message")
	cable.Mend()
	b.eventually(func() bool { return strings.Contains(w.errors(), "the database is back") }, "the other one")
	w.signal(syscall.SIGTERM)
	w.exits(0)
	require.Equal(t, 1, strings.Count(w.errors(), "trying again"), w.errors())
}

// TestWatchReaderGone: nobody reads any more, and nothing changes that it would have to write.
func TestWatchReaderGone(t *testing.T) {
	b := newBench(t)
	b.unlock(b.lock("job"))
	r, out, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command("fairlock", "watch", "--interval", "100ms", "job")
	cmd.Stdout = out
	w := b.startCmd(cmd, nil)
	require.NoError(t, out.Close())
	_, err = bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, r.Close())
	w.exits(exitSignal + int(syscall.SIGPIPE))
	require.Empty(t, w.errors())
}

// TestDescribe: what others wrote cannot forge a line.
func TestDescribe(t *testing.T) {
	t.Parallel()
	at := func(label string, left time.Duration) fairlock.Place {
		return fairlock.Place{Token: 7, Owner: &fairlock.Owner{Label: label, Host: "h", PID: 3, LeaseLeft: left}}
	}
	for want, c := range map[string]change{
		"a free waiting=0": {Name: "a", State: "free"},
		`"a b" held token=7 by=x\n2026 b free@h:3 waiting=2`:          {Name: "a b", State: "held", Waiting: 2, Holders: []fairlock.Place{at("x\n2026 b free", 1)}},
		`a expired token=7 by=x@h:3 (expired) token=9 by=? waiting=0`: {Name: "a", State: "expired", Holders: []fairlock.Place{at("x", -1), {Token: 9}}},
		`a\u202eb held token=7 by=\x1b[2J@h:3 waiting=0`:              {Name: "a\u202eb", State: "held", Holders: []fairlock.Place{at("\x1b[2J", 1)}},
	} {
		require.Equal(t, want, describe(&c))
	}
}
