package peers_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/peers"
	"github.com/fairlock/fairlock/bench/peers/fetch"
	"github.com/fairlock/fairlock/bench/run"
)

// prepare builds a contestant's program. One outcome other than success is allowed: that square/mongo-lock is refused by this machine's
// module proxy. Then the test is skipped, and says so, for nothing was tested.
func prepare(t *testing.T, c run.Contestant) {
	t.Helper()
	err := peers.Prepare(t.Context(), c)
	var missing *fetch.MissingError
	if c.Kind == "square-mongo-lock" && errors.As(err, &missing) && missing.What == peers.SquareModule {
		t.Skipf("NOT TESTED: %v", err)
	}
	require.NoError(t, err)
	if c.Command != nil {
		t.Logf("%s is built", c.Kind)
	}
}

// That the contender compiles and keeps to the contract as far as it can without a server. What it does with one is in
// TestContestantsContend.
func TestSquareIsBuilt(t *testing.T) {
	for _, c := range peers.All() {
		if c.Kind != "square-mongo-lock" {
			continue
		}
		prepare(t, c)
		out, err := c.Command([]string{"-kind", "abacus"}).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), `-kind "abacus" is none of this binary's`)
		return
	}
	require.Fail(t, "square-mongo-lock is no contestant")
}
