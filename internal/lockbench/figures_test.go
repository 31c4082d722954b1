package lockbench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/measure"
)

// TestHandoffs: whose call came too late is not counted, nor what came before the beginning; the order of the sample does not matter.
func TestHandoffs(t *testing.T) {
	t.Parallel()
	across, within, counted := handoffs([]hold{
		{Worker: 2, Wait: 35, Grant: 61, End: 70}, // called while the one before held
		{Worker: 1, Wait: 0, Grant: 10, End: 15},  // before the beginning
		{Worker: 2, Wait: 1, Grant: 20, End: 25},
		{Worker: 1, Wait: 16, Grant: 28, End: 30}, // across: 3
		{Worker: 1, Wait: 17, Grant: 31, End: 40}, // within: 1
	}, 20)
	require.Equal(t, []time.Duration{3}, across)
	require.Equal(t, []time.Duration{1}, within)
	require.Equal(t, 4, counted)

	_, _, counted = handoffs(nil, 0)
	require.Zero(t, counted)
	require.Equal(t, Figure{}, figure(nil, measure.Quantiles{N: 1, P50: 1, P99: 1}))
	require.Equal(t, 1.5, figure([]time.Duration{3 * time.Millisecond}, measure.Quantiles{P50: 2, P99: 3}).P50Floors)
}

// TestNotEmpty: a person learns what is in the way.
func TestNotEmpty(t *testing.T) {
	t.Parallel()
	e := &NotEmptyError{DB: "app", Collections: []string{"a", "b", "c", "d", "e"}}
	require.ErrorIs(t, e, ErrNotEmpty)
	require.Equal(t, `database "app" has collections in it (a, b, c and 2 more): must be empty, for it is dropped at the end`, e.Error())
}
