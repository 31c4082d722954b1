// Package memory gives the examples' tests managers on a database in memory, on the fake time of testing/synctest.
package memory

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/memstore"
	"github.com/fairlock/fairlock/internal/parts"
)

// Run runs a test on fake time. Each call of process is a process of its own, all on one database.
func Run(t *testing.T, test func(t *testing.T, process func() *fairlock.Manager)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := memstore.New(time.Now)
		var all []*fairlock.Manager
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			for _, m := range all {
				require.NoError(t, m.Close(ctx))
			}
			if !t.Failed() {
				require.Empty(t, server.Unrest())
			}
		}()
		test(t, func() *fairlock.Manager {
			c := server.Client()
			m, err := fairlock.Assemble(nil, parts.Parts{
				Clock: memstore.NewClock(), Queue: c.Queue(), Sessions: c.Sessions(), Source: c.Source(),
			})
			require.NoError(t, err)
			all = append(all, m)
			return m
		})
	})
}
