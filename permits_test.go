package fairlock

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestLineAgainstModelSeveralPermits: TestLineAgainstModel with more than one permit.
func TestLineAgainstModelSeveralPermits(t *testing.T) {
	t.Parallel()
	for permits := int64(2); permits <= 4; permits++ {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("%d permits, seed %d", permits, seed), func(t *testing.T) {
				bubble(t, func(b *bed) { b.againstModel(permits, rand.New(rand.NewPCG(seed, uint64(permits)))) })
			})
		}
	}
}
