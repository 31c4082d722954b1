package gateway

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/run"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Subcommand {
		os.Exit(Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// TestMeasure: the harness measures what it says, with few clients.
func TestMeasure(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	server, err := run.StartMongo(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Stop(ctx)) }()
	for _, gateways := range []int{1, 2} {
		r, err := Measure(ctx, server, Options{Gateways: gateways, Waiters: 20, Rounds: 10, Idle: time.Second})
		require.NoError(t, err)
		t.Log(r)
		require.Equal(t, 10, r.HandOff.Got.N)
		require.Equal(t, 10, r.HandOff.Floor.N)
		require.Positive(t, r.HandOff.Got.P50)
		require.Positive(t, r.HandOff.Floor.P50)
		require.Positive(t, r.Resident)
	}
}
