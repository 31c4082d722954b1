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

// TestArrivalsNeverGoDown: the counts of a manager are read one after another, so a grant can be in Grants and not yet in what told of it. A counter that goes
// down for a moment is a restart to Prometheus, which takes all that was counted so far for new.
func TestArrivalsNeverGoDown(t *testing.T) {
	t.Parallel()
	var all Managers
	for _, step := range []struct {
		read fairlock.Stats
		want int64
	}{
		{fairlock.Stats{Grants: 10, GrantsByEvent: 3}, 7},
		{fairlock.Stats{Grants: 11, GrantsByEvent: 3}, 8}, // it came by an event, which is not counted yet
		{fairlock.Stats{Grants: 11, GrantsByEvent: 4}, 8},
		{fairlock.Stats{Grants: 12, GrantsByEvent: 4}, 8},
		{fairlock.Stats{Grants: 13, GrantsByEvent: 4}, 9},
	} {
		all.past = step.read
		require.Equal(t, step.want, all.Sum().ByArrival, "%+v", step.read)
	}
}
