package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/cable"
	"github.com/fairlock/fairlock/internal/conformance"
)

// TestConformance runs over the replica set what package fairlocktest runs over the fake.
func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.Deployment{In: func(t *testing.T, test func(*testing.T, conformance.Database)) {
		test(t, realDatabase{newBed(t)})
	}})
}

type realDatabase struct{ *bed }

// Process is a manager whose client reaches the primary by a cable of its own.
func (d realDatabase) Process(t *testing.T, cfg *fairlock.Config) *conformance.Process {
	t.Helper()
	var hello struct{ Primary string }
	require.NoError(t, d.db.RunCommand(withLimit(t), bson.D{{Key: "hello", Value: 1}}).Decode(&hello))
	wire, err := cable.New(hello.Primary)
	require.NoError(t, err)
	t.Cleanup(wire.Close)
	client := connect(t, "mongodb://"+wire.Addr(), options.Client().SetDirect(true))
	m, err := fairlock.New(withLimit(t), client.Database(d.db.Name()), cfg)
	require.NoError(t, err)
	killed := false
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := m.Close(ctx); err != nil && !killed && !t.Failed() {
			t.Errorf("Close: %v", err)
		}
	})
	return &conformance.Process{
		Manager: m, Cut: wire.Cut, Heal: wire.Mend,
		Kill: func() {
			killed = true
			d.killed.Store(true)
			wire.Cut() // nothing of what Close would do reaches the server
			over, cancel := context.WithCancel(context.Background())
			cancel()
			_ = m.Close(over)
		},
	}
}
