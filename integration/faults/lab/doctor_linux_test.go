package lab_test

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/integration/faults/lab"
	"github.com/fairlock/fairlock/internal/replset"
)

// buildCLI makes the command. Its modules and packages must be at hand: in here there is no network.
func buildCLI(ctx context.Context, to string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, "./cmd/fairlock")
	cmd.Dir = filepath.Join("..", "..", "..")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = errors.New("build the command: " + err.Error() + ": " + string(out))
	}
	return err
}

// TestDoctorFindsSkew: the clock of one member of three is three seconds ahead, and then right.
func TestDoctorFindsSkew(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	bin := filepath.Join(t.TempDir(), "fairlock")
	require.NoError(t, buildCLI(ctx, bin))
	c, err := lab.NewServerClock(t.TempDir())
	require.NoError(t, err)
	set := replset.ForTest(t, replset.Options{Members: 3, Launch: func(m int, cmd *exec.Cmd) error {
		if m == 2 {
			c.Apply(cmd)
		}
		return cmd.Start()
	}})
	require.NoError(t, exec.CommandContext(ctx, bin, "setup", "--uri", set.URI()).Run())

	doctor := func() (code int, clocks string, what string) {
		cmd := exec.CommandContext(ctx, bin, "doctor", "--json", "--uri", set.URI())
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil {
			require.ErrorAs(t, err, &exit)
		}
		var d struct {
			Findings []struct{ Check, Level, What string }
		}
		require.NoError(t, json.Unmarshal(out, &d), "%s", out)
		for _, f := range d.Findings {
			if f.Check == "clocks" {
				return cmd.ProcessState.ExitCode(), f.Level, f.What
			}
		}
		require.Fail(t, "clocks are not looked at", "%s", out)
		return 0, "", ""
	}
	code, clocks, what := doctor()
	require.Equal(t, "ok", clocks, what)
	require.Equal(t, 0, code)

	require.NoError(t, c.Set(3*time.Second))
	require.Eventually(t, func() bool {
		code, clocks, what = doctor()
		return clocks == "warn"
	}, limit, 100*time.Millisecond)
	require.Equal(t, 1, code)
	require.Contains(t, what, "the clock of "+set.Members()[2].Addr()+" is at least 2.")
	require.Contains(t, what, "ahead")
}
