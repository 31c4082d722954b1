package fairlock

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/fairlock/fairlock/queue"
)

// TestLineAgainstModelSeveralPermits: TestLineAgainstModel for locks that several can hold, among them such as let one in at present.
func TestLineAgainstModelSeveralPermits(t *testing.T) {
	t.Parallel()
	for permits := int64(1); permits <= 4; permits++ {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("%d permits, seed %d", permits, seed), func(t *testing.T) {
				bubble(t, func(b *bed) {
					b.againstModel(queue.Shape{Kind: queue.KindSemaphore, Permits: permits}, rand.New(rand.NewPCG(seed, uint64(permits))))
				})
			})
		}
	}
}
