//go:build linux || darwin || freebsd

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOnRequest: somebody asks for the lock. What the command hears is said by --on-request; it holds the lock until it has ended.
func TestOnRequest(t *testing.T) {
	const told = `echo told > told; while ! [ -e go ]; do sleep 0.02; done; exit 5`
	for name, c := range map[string]struct {
		flags  []string
		script string
		code   int
	}{
		"term":    {[]string{"--on-request=term"}, `trap '` + told + `' TERM; ` + begin + forever, 5},
		"signal":  {[]string{"--on-request", "signal:usr1"}, `trap '` + told + `' USR1; ` + begin + forever, 5},
		"kill":    {[]string{"--on-request=kill"}, begin + forever, 137},
		"stopped": {[]string{"--on-request=term"}, `trap '` + told + `' TERM; ` + begin + `kill -STOP $$; ` + forever, 5},
		"shared":  {[]string{"--on-request=term", "--shared"}, `trap '` + told + `' TERM; ` + begin + forever, 5},
		"ignore":  {nil, begin + `trap '' TERM; while ! [ -e go ]; do sleep 0.02; done; exit 3`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			p := b.start(append(append([]string{"run"}, c.flags...), "job", "--", "sh", "-c", c.script)...)
			b.read("owner")
			b.known("job")
			require.NoError(t, b.m.RequestRelease(b.ctx(), "job"))
			if c.code == 5 {
				b.read("told")
				info, err := b.m.Inspect(b.ctx(), "job")
				require.NoError(t, err)
				require.Len(t, info.Holders, 1)
			}
			b.write("go")
			p.exits(c.code)
			require.NotContains(t, p.errors(), "fairlock:")
			if c.code == 3 {
				require.False(t, b.exists("told"))
			}
			info, err := b.m.Inspect(b.ctx(), "job")
			require.NoError(t, err)
			require.Empty(t, info.Holders)
		})
	}
}

// TestOnRequestLost: who has lost the lock is not asked any more: it is ended.
func TestOnRequestLost(t *testing.T) {
	b := newBench(t)
	p := b.start("run", "--ttl", brief, "--on-request=signal:USR1", "job", "--", "sh", "-c", `trap 'echo > asked' USR1; trap 'exit 0' TERM; `+begin+forever)
	b.read("owner")
	b.known("job")
	b.endSession()
	p.exits(76)
	require.False(t, b.exists("asked"))
}
