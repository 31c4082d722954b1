package history

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/clock"
)

// with judges calls, and what operators did.
func with(operators []Event, all ...one) []Rule {
	for _, o := range all {
		operators = append(operators, o.events()...)
	}
	return rules(Check(operators, Options{}))
}

func forced(at clock.Instant, token int64) []Event {
	return []Event{{Kind: Forced, At: at, Lock: "x", Lo: token}}
}

// TestAWindowThatWasEndedByForce ends for others, whatever its holder knows; and no other's does.
func TestAWindowThatWasEndedByForce(t *testing.T) {
	t.Parallel()
	holder := first
	holder.released, holder.lost = 0, 60
	holder.known, holder.until = 50, 100
	require.Equal(t, []Rule{Exclusion, Order}, with(nil, holder, second))
	require.Empty(t, with(forced(12, holder.lo), holder, second))
	require.Empty(t, with(append(forced(12, holder.lo), forced(40, holder.lo)...), holder, second), "repeated")
	require.Equal(t, []Rule{Exclusion, Order}, with(forced(13, holder.lo), holder, second), "not yet")
	require.Equal(t, []Rule{Exclusion, Order}, with(forced(15, second.lo), holder, second), "another one")
}

// TestOthersOfASetEndWhenTheHolderIsTold: he gives them back then.
func TestOthersOfASetEndWhenTheHolderIsTold(t *testing.T) {
	t.Parallel()
	set := func(granted clock.Instant) []Event {
		a, b := first, first
		a.lost, a.released, b.lost, b.released = 9, 0, 9, 0
		b.call, b.lo = 2, 70
		events := append(a.events(), b.events()...)
		for i := range events {
			if events[i].Kind == Call {
				events[i].Set = 1
			}
			if events[i].Kind == Call || events[i].Kind == Arrived {
				if events[i].Call == 2 || events[i].Lo == 70 {
					events[i].Lock = "y"
				}
			}
		}
		c := second
		c.lo, c.granted, c.known = 71, granted, granted
		for _, e := range c.events() {
			if e.Kind == Call || e.Kind == Arrived {
				e.Lock = "y"
			}
			events = append(events, e)
		}
		return events
	}
	require.Equal(t, []Rule{Exclusion, Order}, rules(Check(set(12), Options{})))
	require.Empty(t, rules(Check(append(forced(8, first.lo), set(12)...), Options{})))
	require.Equal(t, []Rule{Exclusion, Order}, rules(Check(append(forced(8, first.lo), set(8)...), Options{})), "before he was told")
}

// TestPermitsThatWereSet: from the number on that was not issued then.
func TestPermitsThatWereSet(t *testing.T) {
	t.Parallel()
	holder := func(proc int, lo, units int64) one {
		at := clock.Instant(10 * proc)
		return one{proc: proc, call: 1, called: 1, sent: clock.Instant(2 * proc), acked: clock.Instant(2*proc + 1), granted: at, known: at + 1, until: 1000,
			released: 500, lo: lo, units: units, permits: 3}
	}
	set := func(lo, permits int64) []Event { return []Event{{Kind: Resized, Lock: "x", Lo: lo, Permits: permits}} }
	a, b, c := holder(1, 10, 2), holder(2, 12, 1), holder(3, 13, 2)
	require.Equal(t, []Rule{Exclusion, Order}, with(nil, a, b, c), "5 of 3")
	require.Empty(t, with(set(13, 5), a, b, c), "more: also for those who wait")
	require.Empty(t, with(set(13, 1), a, b), "fewer: nobody loses anything")
	require.Equal(t, []Rule{Exclusion, Order}, with(append(set(12, 5), set(13, 1)...), a, b, c), "13 and 14 beyond one")
	require.Empty(t, with(append(set(12, 1), set(13, 5)...), a, b, c), "more again")
}
