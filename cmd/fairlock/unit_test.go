package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/lockbench"
)

func TestDatabaseOf(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"mongodb://h":                               "",
		"mongodb://h/":                              "",
		"mongodb://h/?replicaSet=rs":                "",
		"mongodb://h:1,h:2/prod?w=majority":         "prod",
		"mongodb+srv://u:p%2Fw@h/prod":              "prod",
		"mongodb://h/a%20b":                         "a b",
		"mongodb://h/a%zz":                          "a%zz",
		"mongodb://%2Ftmp%2Fmongodb.sock/prod":      "prod",
		"mongodb://h/?authSource=admin&appName=a/b": "",
	} {
		require.Equal(t, want, databaseOf(uri), uri)
	}
	require.Equal(t, "flag", shared{uri: "mongodb://h/path", db: "flag"}.database())
	require.Equal(t, "path", shared{uri: "mongodb://h/path"}.database())
	require.Equal(t, "fairlock", shared{uri: "mongodb://h"}.database())
}

func TestSafe(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain ünïcode 日本": "plain ünïcode 日本",
		"\x1b[2J":          `\x1b[2J`,
		"a\nb\tc\x00":      `a\nb\tc\x00`,
		"\u202egnp.exe":    `\u202egnp.exe`,
		"bad \xff utf-8":   `bad \ufffd utf-8`,
		`back\slash "`:     `back\slash "`,
	} {
		require.Equal(t, want, safe(in))
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                              "0s",
		1240 * time.Millisecond:        "1.2s",
		-1500 * time.Millisecond:       "-1.5s",
		29*time.Second + 6e8:           "30s",
		61 * time.Second:               "1m1s",
		time.Hour + 61*time.Second:     "1h1m",
		47*time.Hour + 59*time.Minute:  "47h59m",
		50*time.Hour + 59*time.Minute:  "2d2h",
		1000*time.Hour + 3*time.Minute: "41d16h",
	} {
		require.Equal(t, want, age(d), d)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tab := &table{color: func(_, col int, cell string) string {
		if col == 1 {
			return "<" + cell + ">"
		}
		return cell
	}}
	tab.add("A", "LONG", "C")
	tab.add("日本", "x", "y\nz")
	require.NoError(t, tab.writeTo(&out))
	require.Equal(t, "A    <LONG>   C\n日本   <x>      y\\nz\n", out.String())
}

// TestCodes: every kind of error has its code, however it is wrapped, and a message with the prefix once.
func TestCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code int
		said string
	}{
		{nil, 0, ""},
		{exitCode(0), 0, ""},
		{exitCode(7), 7, ""},
		{fmt.Errorf("%w: x", fairlock.ErrNotFound), 3, "fairlock: no such lock: x\n"},
		{fairlock.ErrInvalidName, 64, "fairlock: invalid lock name\n"},
		{fmt.Errorf("%w: x", fairlock.ErrInvalidOption), 64, "fairlock: invalid option: x\n"},
		{fairlock.ErrServer, 69, "fairlock: server not suitable\n"},
		{fairlock.ErrBusy, 75, "fairlock: busy\n"},
		{errors.New("x"), 125, "fairlock: x\n"},
		{errors.Join(exitf(exitLost, "%w", errors.New("x")), nil), 76, "fairlock: x\n"},
		{exitf(exitInternal, "%w", fairlock.ErrBusy), 125, "fairlock: busy\n"},
	} {
		var out strings.Builder
		require.Equal(t, c.code, report(&out, c.err), c.err)
		require.Equal(t, c.said, out.String())
	}
}

// TestExitTable: the help has all codes.
func TestExitTable(t *testing.T) {
	t.Parallel()
	for _, code := range []int{
		exitOK, exitNoLock, exitUsage, exitUnavailable, exitBusy, exitLost, exitInternal, exitCannotExec, exitNotFound,
	} {
		require.Regexp(t, fmt.Sprintf(`(?m)^  %d +\S`, code), exitTable)
	}
}

// TestJSON: scripts rely on the names of fields, and the help has all of them.
func TestJSON(t *testing.T) {
	t.Parallel()
	fields := func(v any) (names []string) {
		var m map[string]any
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &m))
		return slices.Sorted(maps.Keys(m))
	}
	for text, c := range map[string]struct {
		value any
		want  string
	}{
		statusLong + "1": {listed{LockSummary: fairlock.LockSummary{IdleSince: &time.Time{}, Malformed: "x"}},
			"holders idleSince kind lastToken malformed held name permits waiting"},
		queueLong + "1": {fairlock.LockInfo{More: 1, IdleSince: &time.Time{}, Managed: true, Request: &fairlock.ReleaseRequest{}, Forced: make([]fairlock.ForcedUnlock, 1)},
			"forced holders idleSince kind lastToken managed more name permits request waiters"},
		queueLong + "2": {fairlock.Place{Owner: &fairlock.Owner{}}, "owner position token units"},
		queueLong + "3": {fairlock.Owner{Host: "h", PID: 1, Label: "l", Held: 1, Dead: true}, "age dead held host label leaseLeft pid session"},
		queueLong + "4": {fairlock.ReleaseRequest{}, "at by upTo"},
		queueLong + "5": {fairlock.ForcedUnlock{}, "at by reason session token"},
		watchLong + "1": {change{}, "held holders lastToken name state time waiting"},
		benchLong + "1": {lockbench.Result{}, "acquisitions acquisitionsPerSecond database durationMs floor goroutines handoff handoffInside holdMs pair processes server"},
		benchLong + "2": {lockbench.Figure{}, "maxMs n p50Floors p50Ms p99Floors p99Ms"},
	} {
		want := slices.Sorted(slices.Values(strings.Fields(c.want)))
		require.Equal(t, want, fields(c.value))
		for _, name := range want {
			require.Regexp(t, `\b`+name+`\b`, text)
		}
	}
}
