package fairlock

import (
	"log/slog"
	"sync/atomic"
)

// passedOver counts and logs documents that are none of fairlock's: whoever may write to the collections can leave some.
type passedOver struct {
	n   atomic.Int64
	log *slog.Logger
}

func (p *passedOver) note(collection string, n int, first error) {
	p.n.Add(int64(n))
	p.log.Warn("fairlock: documents of others passed over", "collection", collection, "documents", n, "error", first)
}

func (p *passedOver) count() int64 {
	if p == nil {
		return 0
	}
	return p.n.Load()
}
