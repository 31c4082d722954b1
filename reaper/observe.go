package reaper

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/queue"
)

// sightings is what one process has seen of others with its own eyes: how long a beat, an absence or a gap has stood
// unchanged on its own clock. It is half of every piece of evidence in this package (safety rule: no clock of
// another machine decides alone).
type sightings struct {
	beats map[string]beatSeen
	gaps  map[string][]gapSeen // by lock
}

// beatSeen is a session's beat and since when it has stood. An absent session has the beat -1.
type beatSeen struct {
	beat  int64
	since clock.Instant
	last  clock.Instant // newest look, for forgetting
}

// gapSeen is a run of numbers without tickets and since when it has been one, on this process's clock and the server's. Trust without a
// ticket ends by the owner's clock alone, so here it takes two clocks to say that it is over.
type gapSeen struct {
	queue.Range
	since  clock.Instant
	server time.Time
}

const absent = -1

func newSightings() *sightings {
	return &sightings{beats: map[string]beatSeen{}, gaps: map[string][]gapSeen{}}
}

// beat notes a session's beat and returns how long it has stood unchanged.
func (s *sightings) beat(id string, beat int64, now clock.Instant) time.Duration {
	b, ok := s.beats[id]
	if !ok || b.beat != beat {
		b = beatSeen{beat: beat, since: now}
	}
	b.last = now
	s.beats[id] = b
	return now.Sub(b.since)
}

// forgetBeats drops sessions that nobody has looked at for longer than age.
func (s *sightings) forgetBeats(now clock.Instant, age time.Duration) {
	for id, b := range s.beats {
		if now.Sub(b.last) > age {
			delete(s.beats, id)
		}
	}
}

// gap notes the gaps that a lock has now, at now and at the server's time server, and returns those that have been gaps for at least
// grace on both clocks, and how long it is until the next one will have been, if there is one. A server's clock that was set back
// begins anew. A number that was a gap at the last look and is one now has been
// one all the time between: a ticket or a settle is for ever, and a number is issued once (I1).
func (s *sightings) gap(lock string, now clock.Instant, server time.Time, gaps []queue.Range, grace time.Duration) (ripe []queue.Range, next time.Duration) {
	var seen []gapSeen // sorted by Lo, as gaps is
	for _, g := range gaps {
		var known []queue.Range
		for _, old := range s.gaps[lock] {
			if part := (queue.Range{Lo: max(g.Lo, old.Lo), Hi: min(g.Hi, old.Hi)}); part.Lo <= part.Hi {
				if old.server.After(server) {
					old.server = server
				}
				seen = append(seen, gapSeen{part, old.since, old.server})
				known = append(known, part)
			}
		}
		for _, fresh := range queue.Subtract(g, known) {
			seen = append(seen, gapSeen{fresh, now, server})
		}
	}
	slices.SortFunc(seen, func(a, b gapSeen) int { return cmp.Compare(a.Lo, b.Lo) })
	for _, g := range seen {
		switch left := grace - min(now.Sub(g.since), server.Sub(g.server)); {
		case left <= 0:
			ripe = append(ripe, g.Range)
		case next == 0 || left < next:
			next = left
		}
	}
	if len(seen) == 0 {
		delete(s.gaps, lock)
	} else {
		s.gaps[lock] = seen
	}
	return ripe, next
}

// forgetGaps drops what is known of a lock.
func (s *sightings) forgetGaps(lock string) { delete(s.gaps, lock) }

// keepGaps drops what is known of all locks that keep does not want.
func (s *sightings) keepGaps(keep func(lock string) bool) {
	maps.DeleteFunc(s.gaps, func(lock string, _ []gapSeen) bool { return !keep(lock) })
}
