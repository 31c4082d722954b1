package fairlock

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlock/fairlock/queue"
)

// settling is one settle under way, until its outcome is known.
type settling struct {
	line    *line
	ranges  []queue.Range
	front   bool // most likely the first range that is not settled, and alone
	arrival int64
	opens   int64      // when above 0: the frontier is at least this once these numbers are settled
	drop    []*arrival // whose tickets end with it

	done chan struct{} // closed when the outcome is known, or will not be
	lost bool          // somebody else had settled the numbers
	err  error         // given up, by Close; the lease ends them
}

// newSettling is a settle of ranges that ends the tickets of drop, not sent yet.
func (l *line) newSettling(ranges []queue.Range, drop []*arrival) *settling {
	return &settling{line: l, ranges: ranges, drop: drop, done: make(chan struct{})}
}

const (
	retryPause     = 100 * time.Millisecond
	mostRetryPause = 2 * time.Second
)

// settle writes it in a goroutine of the manager's, and again until the outcome is known: the numbers stand in others' way
// and nobody else will settle them while our session lives.
func (m *Manager) settle(s *settling) {
	m.spawn(func() {
		defer close(s.done)
		pause := retryPause
		settled := false // by this very write, so the numbers were of the document that is there
		for attempt := 1; ; attempt++ {
			fresh, err := m.settleOnce(s, attempt == 1)
			if err == nil {
				// A repeat that changed nothing may have met the work of its own first attempt.
				s.lost = !fresh && attempt == 1
				settled = fresh
				break
			}
			m.log().Warn("fairlock: settle", "lock", s.line.name, "error", err)
			if !m.pause(pause + rand.N(pause)) {
				s.err = errors.Join(ErrClosed, err)
				return
			}
			pause = min(2*pause, mostRetryPause)
		}
		if s.opens > 0 && settled {
			m.opened(s.line.name, s.opens)
		}
		m.tickets.finish(s.drop)
	})
}

func (m *Manager) settleOnce(s *settling, first bool) (fresh bool, err error) {
	if s.front && first {
		ctx, cancel := m.opContext()
		done, err := m.queue.SettleFront(ctx, s.line.name, s.line.shape, s.ranges[0], s.arrival)
		cancel()
		m.stats.settles.Add(1)
		if done || err != nil {
			return done, err
		}
	}
	const mostRanges = 500
	for chunk := range slices.Chunk(s.ranges, mostRanges) {
		ctx, cancel := m.opContext()
		ok, err := m.queue.Settle(ctx, s.line.name, chunk, s.arrival)
		cancel()
		m.stats.settles.Add(1)
		if err != nil {
			return false, err
		}
		fresh = fresh || ok
	}
	return fresh, nil
}
