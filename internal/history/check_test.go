package history

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/internal/clock"
)

// one is the history of one call on "x" with one permit: arrival sent at sent, everything else given.
type one struct {
	proc                  int
	call                  int64
	called, sent, acked   clock.Instant
	granted, known, until clock.Instant
	released, lost        clock.Instant
	lo                    int64
	units, permits        int64
}

func (o one) events() []Event {
	if o.units == 0 {
		o.units = 1
	}
	if o.permits == 0 {
		o.permits = 1
	}
	e := []Event{{Kind: Call, At: o.called, Proc: o.proc, Call: o.call, Lock: "x", Units: o.units, Permits: o.permits}}
	if o.acked != 0 {
		e = append(e, Event{Kind: Arrived, At: o.acked, Sent: o.sent, Proc: o.proc, Lock: "x", Lo: o.lo, Hi: o.lo + o.units - 1})
	}
	if o.granted != 0 {
		e = append(e, Event{Kind: Granted, At: o.granted, Proc: o.proc, Call: o.call, Lo: o.lo, Hi: o.lo + o.units - 1})
	}
	if o.known != 0 {
		e = append(e, Event{Kind: Trusted, At: o.known, Until: o.until, Proc: o.proc, Call: o.call})
	}
	if o.lost != 0 {
		e = append(e, Event{Kind: Lost, At: o.lost, Proc: o.proc, Call: o.call})
	}
	if o.released != 0 {
		e = append(e, Event{Kind: Released, At: o.released, Proc: o.proc, Call: o.call})
	}
	return e
}

var (
	first  = one{proc: 1, call: 1, called: 1, sent: 2, acked: 3, granted: 4, known: 5, until: 100, released: 10, lo: 7}
	second = one{proc: 2, call: 1, called: 1, sent: 4, acked: 6, granted: 12, known: 13, until: 100, released: 20, lo: 8}
)

func judge(opts Options, all ...one) []Rule {
	var events []Event
	for _, o := range all {
		events = append(events, o.events()...)
	}
	var rules []Rule
	for _, v := range Check(events, opts) {
		rules = append(rules, v.Rule)
	}
	return rules
}

func TestRules(t *testing.T) {
	t.Parallel()
	with := func(o one, change func(*one)) one { change(&o); return o }
	for name, c := range map[string]struct {
		all  []one
		opts Options
		want []Rule
	}{
		"a fair history":      {all: []one{first, second}},
		"in any order":        {all: []one{second, first}},
		"end is not included": {all: []one{first, with(second, func(o *one) { o.granted, o.known = 10, 11 })}},
		"two holders": {
			all:  []one{first, with(second, func(o *one) { o.granted, o.known = 9, 10 })},
			want: []Rule{Exclusion, Order},
		},
		"a promise counts, though nobody asked again": {
			all:  []one{with(first, func(o *one) { o.released, o.lost = 0, 90 }), second},
			want: []Rule{Exclusion, Order},
		},
		"unless locks are taken away by hand": {
			all:  []one{with(first, func(o *one) { o.released, o.lost = 0, 90 }), second},
			opts: Options{Revoked: true},
		},
		"a promise that has run out": {
			all: []one{with(first, func(o *one) { o.released, o.lost, o.until = 0, 90, 11 }), second},
		},
		"released after the promise has run out": {
			all: []one{with(first, func(o *one) { o.released, o.until = 15, 11 }), second},
		},
		"a number twice": {
			all:  []one{first, with(second, func(o *one) { o.lo = 7 })},
			want: []Rule{Tokens, Arrivals},
		},
		"overtaken": {
			all:  []one{with(first, func(o *one) { o.granted, o.known, o.released = 30, 31, 40 }), second},
			want: []Rule{Tokens, Order},
		},
		"tokens that go back": {
			all:  []one{first, with(second, func(o *one) { o.lo = 6 })},
			want: []Rule{Tokens, Arrivals, Order},
		},
		"somebody else's number": {
			all: []one{first, with(second, func(o *one) { o.proc, o.sent, o.acked = 3, 0, 0 }),
				with(second, func(o *one) { o.granted, o.known, o.released = 0, 0, 0 })},
			want: []Rule{Own, Stranded},
		},
		"a number from before the call": {
			all:  []one{first, with(second, func(o *one) { o.called = 9 })},
			want: []Rule{Own},
		},
		"a later arrival with a lower number": {
			all:  []one{first, with(second, func(o *one) { o.lo = 5; o.granted, o.known, o.released = 2, 3, 3 })},
			want: []Rule{Arrivals},
		},
		"arrivals at the same time are in any order": {
			all: []one{with(first, func(o *one) { o.acked = 5 }), with(second, func(o *one) { o.lo = 5; o.granted, o.known, o.released = 2, 3, 3; o.sent = 4 })},
		},
		"not returned": {
			all:  []one{first, with(second, func(o *one) { o.granted, o.known, o.released = 0, 0, 0 })},
			want: []Rule{Stranded},
		},
		"neither released nor lost": {
			all:  []one{first, with(second, func(o *one) { o.released = 0 })},
			want: []Rule{Stranded},
		},
		"a rule left out": {
			all:  []one{first, with(second, func(o *one) { o.released = 0 })},
			opts: Options{Without: []Rule{Stranded}},
		},
		"permits for both": {
			all: []one{with(first, func(o *one) { o.permits, o.units = 3, 1 }),
				with(second, func(o *one) { o.permits, o.units, o.granted, o.known = 3, 2, 7, 8 })},
		},
		"permits for one": {
			all: []one{with(first, func(o *one) { o.permits, o.units = 2, 1 }),
				with(second, func(o *one) { o.permits, o.units, o.granted, o.known = 2, 2, 7, 8 })},
			want: []Rule{Exclusion, Order},
		},
		"a big one overtaken by a small one": {
			all: []one{with(first, func(o *one) { o.permits, o.units, o.granted, o.known, o.released = 2, 2, 15, 16, 30 }),
				with(second, func(o *one) { o.permits, o.units, o.lo, o.granted, o.known, o.released = 2, 1, 9, 9, 10, 14 })},
			want: []Rule{Tokens, Order},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, judge(c.opts, c.all...))
		})
	}
}

// TestDropped: a process goes on with numbers of a document that was dropped, and made anew with higher ones, until it hears of that.
func TestDropped(t *testing.T) {
	t.Parallel()
	old, young := first, second
	old.granted, old.known, old.released = 30, 31, 40
	drop := func(from, to clock.Instant) Event { return Event{Kind: Dropped, Sent: from, At: to} }
	opts := Options{Without: []Rule{Exclusion, Order}}
	third := one{proc: 3, call: 1, called: 41, sent: 41, acked: 42, granted: 43, known: 44, until: 100, released: 45, lo: 6}
	for name, c := range map[string]struct {
		drop Event
		more []one
		want []Rule
	}{
		"between the arrivals":         {drop: drop(3, 4)},
		"while both were on their way": {drop: drop(2, 6)},
		"after both":                   {drop: drop(7, 8), want: []Rule{Tokens}},
		"before both":                  {drop: drop(0, 1), want: []Rule{Tokens}},
		"a number that goes back is still seen behind one that may": {drop: drop(3, 4), more: []one{third}, want: []Rule{Tokens, Arrivals}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := []Event{c.drop}
			for _, o := range append([]one{old, young}, c.more...) {
				events = append(events, o.events()...)
			}
			var rules []Rule
			for _, v := range Check(events, opts) {
				rules = append(rules, v.Rule)
			}
			require.Equal(t, c.want, rules)
		})
	}
	require.Equal(t, []Rule{Tokens}, judge(opts, old, young), "no drop")
}

func TestOneWhoWasKilledIsNotStranded(t *testing.T) {
	t.Parallel()
	events := first.events()
	waiting := second
	waiting.granted, waiting.known, waiting.released = 0, 0, 0
	events = append(events, waiting.events()...)
	require.Len(t, Check(events, Options{}), 1)
	events = append(events, Event{Kind: Killed, At: 50, Proc: 2})
	require.Empty(t, Check(events, Options{}))
	require.Empty(t, Check(events[:0], Options{}))
}

func TestHistoriesThatContradictThemselves(t *testing.T) {
	t.Parallel()
	e := first.events()
	require.Equal(t, Own, Check(e[1:], Options{})[0].Rule, "no call")
	require.Equal(t, Own, Check(append(e, e[2]), Options{})[0].Rule, "granted twice")
	require.Equal(t, Own, Check(append(e, e[0]), Options{})[0].Rule, "called twice")
	failed := append(e[:2:2], Event{Kind: Failed, At: 3, Proc: 1, Call: 1})
	require.Empty(t, Check(failed, Options{}))
	require.Equal(t, Own, Check(append(failed, e[2]), Options{})[0].Rule, "granted after it had failed")
	wide := append([]Event(nil), e...)
	wide[2].Hi++
	require.Equal(t, Own, Check(wide, Options{})[0].Rule, "more numbers than units")
}

// TestFairQueues: what a fair queue does is never a violation, and moving one grant before the release that it waited for always is.
func TestFairQueues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		permits := rapid.Int64Range(1, 5).Draw(t, "permits")
		n := rapid.IntRange(2, 40).Draw(t, "calls")
		var all []one
		now, number := clock.Instant(10), int64(100)
		free := func(at clock.Instant) int64 { // permits that nobody holds at an instant
			left := permits
			for _, o := range all {
				if o.released > at {
					left -= o.units
				}
			}
			return left
		}
		granted := now
		for i := range n {
			o := one{proc: i % 4, call: int64(i), permits: permits, units: rapid.Int64Range(1, permits).Draw(t, "units"), until: 1 << 40}
			now += clock.Instant(rapid.Int64Range(0, 5).Draw(t, "pause"))
			o.called, o.sent = now, now
			now += 2
			o.acked, o.lo = now, number
			number += o.units
			for granted = max(granted, o.acked); free(granted) < o.units; granted++ {
			}
			o.granted, o.known = granted, granted
			o.released = granted + clock.Instant(rapid.Int64Range(1, 20).Draw(t, "hold"))
			all = append(all, o)
		}
		require.Empty(t, judge(Options{}, all...))
		for i, o := range all {
			early := o.granted - 1
			if early > o.acked && free(early) < o.units && i > 0 && all[i-1].granted <= early {
				all[i].granted, all[i].known = early, early
				require.Contains(t, judge(Options{}, all...), Exclusion)
				return
			}
		}
	})
}

func TestLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewLines(&out)
	for _, e := range first.events() {
		l.Record(e)
	}
	require.NoError(t, l.Err())
	back, err := Read(&out)
	require.NoError(t, err)
	require.Equal(t, first.events(), back)
	_, err = Read(strings.NewReader("{}\nnot json\n"))
	require.ErrorContains(t, err, "line 2")
	full := NewLines(noSpace{})
	full.Record(Event{})
	require.Error(t, full.Err())
}

type noSpace struct{}

func (noSpace) Write([]byte) (int, error) { return 0, bytes.ErrTooLarge }

func TestGaps(t *testing.T) {
	t.Parallel()
	events := append(first.events(), second.events()...)
	at, found := NextGrant(events, "x", 5)
	require.True(t, found)
	require.Equal(t, clock.Instant(12), at)
	_, found = NextGrant(events, "x", 13)
	require.False(t, found)
	_, found = NextGrant(events, "y", 0)
	require.False(t, found)
	require.Equal(t, time.Duration(8), Gap(events, 0, 15))
	require.Equal(t, time.Duration(88), Gap(events, 0, 100, "x"))
	require.Equal(t, time.Duration(100), Gap(events, 0, 100, "y"))
	require.InDelta(t, 2.0, Rate(events, 0, clock.Instant(time.Second)), 1e-9)
}
