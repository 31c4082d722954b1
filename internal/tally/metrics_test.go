package tally

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

// store is an adapter that keeps series by their names: the metric's and the values of its labels.
type store struct {
	mu  sync.Mutex // guards all
	all map[string][]float64
}

func (s *store) add(e Event) Metric {
	name := e.Name + "(" + strings.Join(e.Labels, " ") + ")"
	if e.Bounds != nil {
		name += "s"
	}
	return func(values []string) Series {
		of := fmt.Sprint(name, values)
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, twice := s.all[of]; twice {
			s.all[of] = []float64{-1}
		} else {
			s.all[of] = nil
		}
		return func(_ context.Context, seconds float64) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.all[of] = append(s.all[of], seconds)
		}
	}
}

// since is what has come in, and all is forgotten.
func (s *store) since() map[string][]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := map[string][]float64{}
	for of, took := range s.all {
		if took != nil {
			got[of], s.all[of] = took, nil
		}
	}
	return got
}

// TestMetrics: what each thing that an observer is told counts as.
func TestMetrics(t *testing.T) {
	t.Parallel()
	asked := fairlock.Acquiring{Name: "x", Kind: "mutex"}
	granted := fairlock.Acquired{Acquiring: asked, Waited: time.Second, Token: 1}
	lost := &fairlock.LostError{Reason: fairlock.LostLease}
	for _, c := range []struct {
		what        string
		tell        func(context.Context, *fairlock.Observer)
		want, named map[string][]float64 // named is nil where it is the same
	}{
		{"granted", func(ctx context.Context, o *fairlock.Observer) { o.Acquired(ctx, granted) },
			map[string][]float64{"acquire(kind outcome)[mutex granted]": {0}, "wait(kind)s[mutex]": {1}},
			map[string][]float64{"acquire(kind outcome of)[mutex granted x]": {0}, "wait(kind of)s[mutex x]": {1}}},
		{"busy", func(ctx context.Context, o *fairlock.Observer) {
			o.Acquired(ctx, fairlock.Acquired{Acquiring: asked, Waited: time.Second, Err: fairlock.ErrBusy})
		},
			map[string][]float64{"acquire(kind outcome)[mutex busy]": {0}},
			map[string][]float64{"acquire(kind outcome of)[mutex busy x]": {0}}},
		{"unlocked", func(ctx context.Context, o *fairlock.Observer) {
			o.Ended(ctx, fairlock.Ended{Acquired: granted, Held: 2 * time.Second, Handed: 3 * time.Second})
		},
			map[string][]float64{"hold(kind)s[mutex]": {2}, "release(kind)s[mutex]": {3}},
			map[string][]float64{"hold(kind of)s[mutex x]": {2}, "release(kind)s[mutex]": {3}}},
		{"unlocked, and whether the next was told is not known", func(ctx context.Context, o *fairlock.Observer) {
			o.Ended(ctx, fairlock.Ended{Acquired: granted, Held: 2 * time.Second, Handed: 3 * time.Second, Err: context.DeadlineExceeded})
		},
			map[string][]float64{"hold(kind)s[mutex]": {2}, "release(kind)s[mutex]": {3}},
			map[string][]float64{"hold(kind of)s[mutex x]": {2}, "release(kind)s[mutex]": {3}}},
		{"lost", func(ctx context.Context, o *fairlock.Observer) {
			o.Ended(ctx, fairlock.Ended{Acquired: granted, Held: 2 * time.Second, Err: lost})
		},
			map[string][]float64{"hold(kind)s[mutex]": {2}, "lost(reason)[lease]": {0}},
			map[string][]float64{"hold(kind of)s[mutex x]": {2}, "lost(reason of)[lease x]": {0}}},
		{"undone", func(ctx context.Context, o *fairlock.Observer) {
			o.Ended(ctx, fairlock.Ended{Acquired: granted, Held: 2 * time.Second, Undone: true})
		},
			map[string][]float64{"hold(kind)s[mutex]": {2}},
			map[string][]float64{"hold(kind of)s[mutex x]": {2}}},
		{"renewed", func(_ context.Context, o *fairlock.Observer) { o.Renewed(fairlock.Renewed{Took: time.Second}) },
			map[string][]float64{"renew(outcome)[ok]": {0}, "renew()s[]": {1}}, nil},
		{"not renewed", func(_ context.Context, o *fairlock.Observer) {
			o.Renewed(fairlock.Renewed{Took: time.Second, Err: errors.New("not there")})
		},
			map[string][]float64{"renew(outcome)[error]": {0}, "renew()s[]": {1}}, nil},
		{"stream opened", func(_ context.Context, o *fairlock.Observer) { o.StreamOpened(time.Second) },
			map[string][]float64{"stream.open()s[]": {1}}, nil},
		{"stream failed", func(_ context.Context, o *fairlock.Observer) { o.StreamFailed(fairlock.StreamFailed{Reason: "pool"}) },
			map[string][]float64{"stream.reopens(reason)[pool]": {0}}, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			for lock, want := range map[string]map[string][]float64{"": c.want, "of": c.named} {
				if want == nil {
					want = c.want
				}
				s := &store{all: map[string][]float64{}}
				m := New(lock, s.add)
				c.tell(t.Context(), m.Observer())
				require.Equal(t, want, s.since())
				c.tell(t.Context(), m.Observer()) // again, and of another observer
				require.Equal(t, want, s.since(), "a series is made once")
			}
		})
	}
}

// TestFirst: the series that alerts are about are there before their first event, but those of locks, whose names are not known.
func TestFirst(t *testing.T) {
	t.Parallel()
	begun := func(lock string) map[string]int {
		s, n := &store{all: map[string][]float64{}}, map[string]int{}
		New(lock, s.add)
		for of, took := range s.all {
			require.Empty(t, took, of)
			name, _, _ := strings.Cut(of, "[")
			n[name]++
		}
		return n
	}
	want := map[string]int{"renew(outcome)": 2, "renew()s": 1, "stream.reopens(reason)": 4, "stream.open()s": 1}
	require.Equal(t, want, begun("of"))
	want["acquire(kind outcome)"], want["lost(reason)"] = len(Kinds()), len(fairlock.LossReasons())
	require.Equal(t, want, begun(""))
}

// TestOneSeries: many who are the first of a series at the same time make one.
func TestOneSeries(t *testing.T) {
	t.Parallel()
	s := &store{all: map[string][]float64{}}
	m := New("", s.add)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { m.wait.make(values{"mutex"}, []string{"mutex"})(t.Context(), 1) }) // as if none had found it
	}
	all.Wait()
	m.wait.add(t.Context(), time.Second, "", "mutex")
	require.Equal(t, map[string][]float64{"wait(kind)s[mutex]": {1, 1, 1, 1, 1, 1, 1, 1, 1}}, s.since())
}

// TestNothingAllocated: an event of a series that there is. It is not parallel, so that no other test allocates.
func TestNothingAllocated(t *testing.T) {
	for _, lock := range []string{"", "of"} {
		m := New(lock, func(Event) Metric {
			return func([]string) Series { return func(context.Context, float64) {} }
		})
		ctx := t.Context()
		require.Zero(t, testing.AllocsPerRun(100, func() { m.acquire.add(ctx, 0, "x", "mutex", "granted") }))
		require.Zero(t, testing.AllocsPerRun(100, func() { m.renewal.add(ctx, time.Second, "") }))
	}
}
