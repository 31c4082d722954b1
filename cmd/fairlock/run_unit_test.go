//go:build linux || darwin || freebsd

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestTTLFor: what the message about --kill-after advises is accepted, and a millisecond less is not.
func TestTTLFor(t *testing.T) {
	t.Parallel()
	fits := func(ttl, killAfter time.Duration) bool { return killAfter+slack(ttl) <= ttl/2 }
	rapid.Check(t, func(t *rapid.T) {
		killAfter := time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(t, "kill-after"))
		ttl := ttlFor(killAfter)
		require.True(t, fits(ttl, killAfter), ttl)
		if ttl > time.Second {
			require.False(t, fits(ttl-time.Millisecond, killAfter), ttl)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		ttl := time.Duration(rapid.Int64Range(int64(time.Second), int64(time.Hour)).Draw(t, "ttl"))
		require.True(t, fits(ttl, ttl/2-slack(ttl)), "the other advice")
		require.True(t, fits(ttl, min(5*time.Second, ttl/5*2)), "the default")
	})
}

func TestParseSignal(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"TERM", "SIGTERM", "term", "sigterm", "15"} {
		sig, err := parseSignal(s)
		require.NoError(t, err)
		require.Equal(t, syscall.SIGTERM, sig)
	}
	for _, s := range []string{"", "SIG", "0", "-1", "999", "TERM ", "NOSUCH"} {
		_, err := parseSignal(s)
		require.Error(t, err, s)
	}
}

func TestEnviron(t *testing.T) {
	t.Parallel()
	r := &runner{runFlags: &runFlags{name: "job", ttl: time.Minute}}
	require.Equal(t,
		[]string{"FAIRLOCK_URI=u", "FAIRLOCK_NAMES=kept", "=odd", "FAIRLOCK_NAME=job", "FAIRLOCK_TOKEN=7", "FAIRLOCK_OWNER=me", "FAIRLOCK_TTL=1m0s"},
		r.environ([]string{"FAIRLOCK_URI=u", "FAIRLOCK_NAME=a", "FAIRLOCK_NAMES=kept", "FAIRLOCK_NAME=b", "=odd", "FAIRLOCK_TTL="}, 7, "me"))
}

func TestDefaultLabel(t *testing.T) {
	t.Parallel()
	require.Equal(t, "backup.sh", defaultLabel("/opt/bin/backup.sh"))
	require.Len(t, defaultLabel(strings.Repeat("x", 300)), 255)
	require.Equal(t, "a?b", defaultLabel("a\xffb"))
}
