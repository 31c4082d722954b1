package java_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/peers/java"
)

// A contender that is told nonsense ends with status 1 and the reason, as the contract says. That it contends is tested in package peers.
func TestContenderRefuses(t *testing.T) {
	records := t.TempDir() + "/r"
	for _, args := range [][]string{
		{"-kind", "curator-mutex"},
		{"-kind", "abacus", "-target", "127.0.0.1:1", "-lock", "l", "-hold", "5ms", "-records", records},
		{"-kind", "redisson-fair", "-target", "127.0.0.1:1", "-lock", "l", "-hold", "soon", "-records", records},
		{"-kind", "redisson-fair", "-target", "127.0.0.1:1", "-lock", "l", "-hold", "1h0m0.5s", "-records", records}, // nobody there
	} {
		out, err := java.Command(args).CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 1, exit.ExitCode(), "%s", out)
		require.NotEmpty(t, out)
		require.NotContains(t, string(out), "ready")
	}
}
