package tally

import (
	"reflect"
	"sync"

	"github.com/fairlock/fairlock"
)

// Managers are those that live, and what others did while they lived. The zero value is ready. It is safe for concurrent use.
type Managers struct {
	mu       sync.Mutex // guards all below
	live     map[*fairlock.Manager]struct{}
	past     fairlock.Stats
	arrivals int64 // the highest Sum.ByArrival so far
}

// Sum is what all have done. Its fields that grow never go down.
type Sum struct {
	fairlock.Stats
	Managers  int64 // that live
	Streams   int64 // that are open
	ByArrival int64 // grants that came with the arrival's own reply, or from inside the process
}

// Made takes in a new manager; it is for [fairlock.Observer].
func (t *Managers) Made(m *fairlock.Manager) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live == nil {
		t.live = map[*fairlock.Manager]struct{}{}
	}
	t.live[m] = struct{}{}
}

// Closed takes in the end of one, and keeps what it did and not the manager.
func (t *Managers) Closed(m *fairlock.Manager) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.live[m]; !ok {
		return
	}
	delete(t.live, m)
	s := m.Stats()
	s.Held, s.Waiting, s.Streaming = 0, 0, false
	add(&t.past, s)
}

// Sum adds up. It makes no database call.
func (t *Managers) Sum() Sum {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := Sum{Stats: t.past, Managers: int64(len(t.live))}
	for m := range t.live {
		s := m.Stats()
		add(&sum.Stats, s)
		if s.Streaming {
			sum.Streams++
		}
	}
	sum.Streaming = sum.Streams > 0
	s := &sum.Stats
	// The counts are read one after another, so a grant can be in one of these and not yet in the other. The difference may not go down for that.
	t.arrivals = max(t.arrivals, s.Grants-s.GrantsByEvent-s.GrantsByOpening-s.GrantsByDoze-s.GrantsByRecheck-s.GrantsByPoll)
	sum.ByArrival = t.arrivals
	return sum
}

// add adds all counts of s to sum: also those that will be added to Stats.
func add(sum *fairlock.Stats, s fairlock.Stats) {
	to, from := reflect.ValueOf(sum).Elem(), reflect.ValueOf(s)
	for i := range from.NumField() {
		if f := to.Field(i); f.Kind() == reflect.Int64 {
			f.SetInt(f.Int() + from.Field(i).Int())
		}
	}
}
