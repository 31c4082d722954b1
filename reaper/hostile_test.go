package reaper

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/queue"
)

// TestAtMost: a lock document can name more numbers than there is time for.
func TestAtMost(t *testing.T) {
	t.Parallel()
	type r = queue.Range
	require.Equal(t, []r{{Lo: 1, Hi: 4}, {Lo: 6, Hi: 6}}, atMost([]r{{Lo: 1, Hi: 4}, {Lo: 6, Hi: math.MaxInt64 - 1}}, 5))
	require.Equal(t, []r{{Lo: 1, Hi: 4}}, atMost([]r{{Lo: 1, Hi: 4}}, 5))
	require.Equal(t, []r{{Lo: 1, Hi: 4}}, atMost([]r{{Lo: 1, Hi: 4}, {Lo: 6, Hi: 6}}, 4))
	require.Empty(t, atMost(nil, 5))
}
