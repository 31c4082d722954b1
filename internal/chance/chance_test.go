package chance_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/chance"
)

func TestSourceDecides(t *testing.T) {
	t.Parallel()
	draw := func(src rand.Source) (time.Duration, uint64, string) {
		return chance.Upto(src, time.Second), chance.Uint64(src), chance.ID(src)[10:] // what stands before is the time
	}
	d1, u1, id1 := draw(rand.NewPCG(1, 2))
	d2, u2, id2 := draw(rand.NewPCG(1, 2))
	require.Equal(t, d1, d2)
	require.Equal(t, u1, u2)
	require.Equal(t, id1, id2)
}

func TestWithoutSource(t *testing.T) {
	t.Parallel()
	require.Less(t, chance.Upto(nil, time.Second), time.Second)
	require.NotEqual(t, chance.Uint64(nil), chance.Uint64(nil))
	require.NotEqual(t, chance.ID(nil), chance.ID(nil))
}
