package fairlock

import (
	"errors"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/chance"
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

	// before are those of the same run that were not over when this was made. Numbers of drop may be among theirs, and a ticket
	// stands until all its numbers are settled: without it, numbers whose settle is still being repeated look like orphans.
	before []*settling

	told chan struct{} // closed when there is something to tell whoever gave the numbers back: the outcome, or that it is refused
	why  error         // refused, and repeating it cannot help; it is repeated all the same. Lost and err then say nothing
	lost bool          // somebody else had settled the numbers
	err  error         // given up, by Close; the lease ends them

	done chan struct{} // closed at the end; nil unless others may wait for it (before)
}

// newSettling is a settle of numbers of a run, which ends the tickets of drop; not sent yet. The caller holds mu.
func (l *line) newSettling(r *run, ranges []queue.Range, drop []*arrival) *settling {
	r.settlings = slices.DeleteFunc(r.settlings, (*settling).over)
	return &settling{line: l, ranges: ranges, drop: drop, told: make(chan struct{}), before: slices.Clone(r.settlings)}
}

func (s *settling) over() bool {
	select {
	case <-s.done:
		return s.err == nil
	default:
		return false
	}
}

const (
	retryPause     = 100 * time.Millisecond
	mostRetryPause = 2 * time.Second
)

// settle writes it in a goroutine of the manager's, and again until the outcome is known: the numbers stand in others' way
// and nobody else will settle them while our session lives.
func (m *Manager) settle(s *settling) {
	m.spawn(func() {
		if m.write(s) {
			m.finish(s)
		}
	})
}

// write reports whether the numbers are settled. If not it was given up, by Close.
func (m *Manager) write(s *settling) bool {
	defer func() {
		if s.why == nil {
			close(s.told)
		}
		if s.done != nil {
			close(s.done)
		}
	}()
	if len(s.ranges) == 0 {
		return true
	}
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
		if s.why == nil && queue.Permanent(err) {
			s.why = err
			close(s.told)
		}
		if !m.pause(pause + chance.Upto(m.chance, pause)) {
			s.err = errors.Join(ErrClosed, err)
			return false
		}
		pause = min(2*pause, mostRetryPause)
	}
	if s.opens > 0 && settled {
		m.opened(s.line.name, s.opens)
	}
	return true
}

// finish ends the tickets of a settle that was written.
func (m *Manager) finish(s *settling) {
	if len(s.drop) == 0 {
		return
	}
	for _, b := range s.before {
		if <-b.done; b.err != nil {
			return
		}
	}
	m.tickets.finish(s.drop)
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
