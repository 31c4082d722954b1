package history

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/clock"
)

// reduced adds to a history that a call gave back units.
func reduced(events []Event, at clock.Instant, proc int, call, units int64) []Event {
	events = append(events, Event{Kind: Reduced, At: at, Proc: proc, Call: call, Units: units})
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events
}

func rules(all []Violation) (names []Rule) {
	for _, v := range all {
		names = append(names, v.Rule)
	}
	return names
}

// big has all three permits of a semaphore until 10, and small wants one.
var (
	big   = one{proc: 1, call: 1, called: 1, sent: 2, acked: 3, granted: 4, known: 5, until: 100, released: 10, lo: 7, units: 3, permits: 3}
	small = one{proc: 2, call: 1, called: 1, sent: 4, acked: 6, granted: 8, known: 8, until: 100, released: 20, lo: 10, permits: 3}
)

func TestUnitsThatWereGivenBackAreFree(t *testing.T) {
	t.Parallel()
	events := append(big.events(), small.events()...)
	require.Equal(t, []Rule{Exclusion, Order}, rules(Check(events, Options{})), "before")
	require.Empty(t, Check(reduced(slices.Clone(events), 8, 1, 1, 1), Options{}))
	require.Equal(t, []Rule{Exclusion, Order}, rules(Check(reduced(slices.Clone(events), 9, 1, 1, 1), Options{})), "a moment later")
	two := small
	two.units = 2
	events = append(big.events(), two.events()...)
	require.Equal(t, []Rule{Exclusion, Order}, rules(Check(reduced(slices.Clone(events), 7, 1, 1, 1), Options{})), "one for two")
	require.Empty(t, Check(reduced(reduced(slices.Clone(events), 6, 1, 1, 1), 7, 1, 1, 1), Options{}))
}

func TestOneCannotGiveBackMoreThanOneHas(t *testing.T) {
	t.Parallel()
	events := big.events()
	require.Empty(t, Check(reduced(slices.Clone(events), 8, 1, 1, 2), Options{}))
	for _, units := range []int64{-1, 0, 3} {
		require.Equal(t, []Rule{Own}, rules(Check(reduced(slices.Clone(events), 8, 1, 1, units), Options{})))
	}
	require.Equal(t, []Rule{Own}, rules(Check(reduced(reduced(slices.Clone(events), 8, 1, 1, 2), 9, 1, 1, 1), Options{})))
	require.Equal(t, []Rule{Own}, rules(Check(reduced(events[:1:1], 8, 1, 1, 1), Options{Without: []Rule{Stranded}})), "not granted")
}

// TestReadersAndWriters: 4 permits, of which a reader takes one and a writer all.
func TestReadersAndWriters(t *testing.T) {
	t.Parallel()
	const permits = 4
	number := int64(10)
	user := func(proc int, units int64, granted, released clock.Instant) one {
		o := one{proc: proc, call: 1, called: 1, sent: clock.Instant(2 * proc), acked: clock.Instant(2*proc + 1), granted: granted, known: granted,
			until: 1000, released: released, lo: number, units: units, permits: permits}
		number += units
		return o
	}
	r1, r2, w, r3 := user(1, 1, 20, 40), user(2, 1, 20, 30), user(3, permits, 40, 50), user(4, 1, 50, 60)
	require.Empty(t, judge(Options{}, r1, r2, w, r3))
	require.Empty(t, judge(Options{}, r2, w, r3, func() one { r1.granted, r1.known = 25, 25; return r1 }()), "readers beside each other come in any order")
	early := w
	early.granted, early.known = 39, 39
	require.Equal(t, []Rule{Exclusion, Order}, judge(Options{}, r1, r2, early, r3), "a writer beside a reader")
	passed := r3
	passed.granted, passed.known, passed.released = 30, 30, 35
	require.Equal(t, []Rule{Tokens, Order}, judge(Options{}, r1, r2, w, passed), "a reader passes a writer")
	require.Equal(t, []Rule{Tokens}, judge(Options{Without: []Rule{Order}}, r1, r2, w, passed), "the tokens show it as well")
}

// set is a LockAll of "x" by first and of "y" by a call that is like it.
func set(change func(y *one)) []Event {
	y := first
	y.call = 2
	change(&y)
	of := y.events()
	for i := range of {
		if of[i].Lock != "" {
			of[i].Lock = "y"
		}
	}
	events := append(first.events(), of...)
	for i := range events {
		if events[i].Kind == Call {
			events[i].Set = 1
		}
	}
	return events
}

func TestSets(t *testing.T) {
	t.Parallel()
	none := func(*one) {}
	require.Empty(t, Check(set(none), Options{}))
	// The last knowledge of "x" is of 5.
	require.Empty(t, Check(set(func(y *one) { y.released, y.lost = 0, 5 }), Options{}))
	require.Equal(t, []Rule{Final}, rules(Check(set(func(y *one) { y.released, y.lost = 0, 4; y.known = 4 }), Options{})))
	require.Empty(t, Check(set(func(y *one) { y.granted, y.known, y.released = 0, 0, 0 }), Options{Without: []Rule{Stranded}}), "it may still be granted")

	events := set(func(y *one) { y.granted, y.known, y.released = 0, 0, 0 })
	events = append(events, Event{Kind: Failed, At: 6, Proc: 1, Call: 2, Err: "busy"})
	require.Equal(t, []Rule{Together}, rules(Check(events, Options{})))
	for i := range events {
		events[i].Set = 0
	}
	require.Empty(t, Check(events, Options{}), "two calls that have nothing to do with each other")
}

func TestALossIsFinal(t *testing.T) {
	t.Parallel()
	lost := first
	lost.released, lost.lost = 0, 6
	events := append(lost.events(), Event{Kind: Trusted, At: 7, Until: 20, Proc: 1, Call: 1})
	require.Equal(t, []Rule{Final}, rules(Check(events, Options{})))
}
