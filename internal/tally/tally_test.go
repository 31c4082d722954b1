package tally

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/fairlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSum(t *testing.T) {
	t.Parallel()
	var all Managers
	require.Equal(t, Sum{}, all.Sum())
	srv := fairlocktest.NewServer()
	cfg := &fairlock.Config{Observer: &fairlock.Observer{Made: all.Made, Closed: all.Closed}}
	a, b := srv.Manager(t, cfg), srv.Manager(t, cfg)
	take := func(m *fairlock.Manager, name string) *fairlock.Lock {
		l, err := m.Lock(t.Context(), name)
		require.NoError(t, err)
		return l
	}
	take(a, "x")
	require.NoError(t, take(b, "y").Unlock(t.Context()))
	s := all.Sum()
	require.EqualValues(t, []int64{2, 2, 1, 2, 0}, []int64{s.Managers, s.Grants, s.Held, s.ByArrival, s.Lost})

	require.NoError(t, a.Close(t.Context()))
	all.Closed(a) // again
	s = all.Sum()
	require.EqualValues(t, []int64{1, 2, 0, 2, 1}, []int64{s.Managers, s.Grants, s.Held, s.ByArrival, s.Lost})
	require.NoError(t, b.Close(t.Context()))
	require.Zero(t, all.Sum().Managers)
	require.EqualValues(t, 2, all.Sum().Grants)
}

// TestAddAddsAll: no field of Stats is forgotten.
func TestAddAddsAll(t *testing.T) {
	t.Parallel()
	var sum fairlock.Stats
	add(&sum, fairlock.Stats{Held: 1, Grants: 2, Unobserved: 3, Streaming: true})
	add(&sum, fairlock.Stats{Held: 1, Grants: 2, Unobserved: 3})
	require.Equal(t, fairlock.Stats{Held: 2, Grants: 4, Unobserved: 6}, sum)
}
