//go:build linux || darwin || freebsd

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock/internal/cable"
)

// newCable returns a network between one fairlock and the primary, and the URI through it.
func newCable(b *bench) (*cable.Cable, string) {
	b.Helper()
	c, err := cable.New(primary(b.T))
	require.NoError(b, err)
	b.Cleanup(c.Close)
	return c, "mongodb://" + c.Addr() + "/" + b.db.Name() + "?directConnection=true"
}

// primary is the address of the server that takes writes.
func primary(t *testing.T) string {
	t.Helper()
	var hello struct{ Primary string }
	require.NoError(t, deployment.client.Database("admin").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello))
	if hello.Primary == "" {
		return hostOf(t, deployment.uri) // no replica set
	}
	return hello.Primary
}
