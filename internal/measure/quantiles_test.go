package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantiles(t *testing.T) {
	t.Parallel()
	require.Equal(t, Quantiles{}, Of(nil))
	var s []time.Duration
	for i := 100; i > 0; i-- {
		s = append(s, time.Duration(i)*time.Millisecond)
	}
	require.Equal(t, Quantiles{N: 100, P50: 50, P99: 99, Max: 100}, Of(s))
	require.Equal(t, Quantiles{N: 1, P50: 1, P99: 1, Max: 1}, Of(s[99:]))
	require.Equal(t, 0.0, Ratio(1, 0))
}
