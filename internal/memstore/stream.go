package memstore

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/waiter"
)

// tap is what one opening or stream gets of the events. Its fields but wake are guarded by Server.mu.
type tap struct {
	c      *Client
	start  *state // at the beginning of the opening
	events []waiter.Event
	err    error
	wake   chan struct{} // capacity 1: there is something new
}

// emit gives an event to every tap. The caller holds mu.
func (s *Server) emit(e waiter.Event) {
	for _, t := range s.taps {
		for range t.c.copies(e) {
			t.events = append(t.events, e)
		}
		t.poke()
	}
}

// fail ends the tap after the events that it has. The caller holds the server's mutex.
func (t *tap) fail(err error) {
	if t.err == nil {
		t.err = err
	}
	t.poke()
}

func (t *tap) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// KillStreams ends the client's open streams, and openings under way, with err.
func (c *Client) KillStreams(err error) {
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	for _, t := range c.srv.taps {
		if t.c == c {
			t.fail(err)
		}
	}
}

// Taps is how many streams and openings of the client the server keeps something for.
func (c *Client) Taps() int {
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	n := 0
	for _, t := range c.srv.taps {
		if t.c == c {
			n++
		}
	}
	return n
}

// Source is a [Client] as a waiter.Source.
type Source struct{ c *Client }

var _ waiter.Source = Source{}

// Source returns the client's side for waiters.
func (c *Client) Source() Source { return Source{c} }

// Views implements [waiter.Source].
func (s Source) Views(ctx context.Context, names []string) ([]queue.View, error) {
	return read(ctx, s.c, OpSourceViews, "", func(st *state) []queue.View { return st.views(names) })
}

// Begin implements [waiter.Source].
func (s Source) Begin(ctx context.Context) (waiter.Opening, error) {
	return call(ctx, s.c, OpBegin, "", func() (waiter.Opening, error) {
		s.c.srv.mu.Lock()
		defer s.c.srv.mu.Unlock()
		t := &tap{c: s.c, start: s.c.srv.now.snapshot(), wake: make(chan struct{}, 1)}
		s.c.srv.taps = append(s.c.srv.taps, t)
		return &opening{tap: t}, nil
	})
}

type opening struct {
	*tap
	opened bool
}

// Views shows the state at the beginning of the opening.
func (o *opening) Views(ctx context.Context, names []string) ([]queue.View, error) {
	return call(ctx, o.c, OpOpeningViews, "", func() ([]queue.View, error) { return o.start.views(names), nil })
}

func (o *opening) Open(ctx context.Context, await time.Duration, names []string) (waiter.Stream, error) {
	return call(ctx, o.c, OpOpen, "", func() (waiter.Stream, error) {
		o.opened = true
		return &stream{tap: o.tap, await: await, names: names}, nil
	})
}

func (o *opening) End() {
	if !o.opened {
		o.close()
	}
}

func (t *tap) close() {
	t.c.srv.mu.Lock()
	defer t.c.srv.mu.Unlock()
	t.c.srv.taps = slices.DeleteFunc(t.c.srv.taps, func(x *tap) bool { return x == t })
}

type stream struct {
	*tap
	await time.Duration
	names []string // nil: all
	inUse atomic.Bool
	dead  error // after it Next only fails; used by the one caller of Next
}

// Next implements [waiter.Stream].
func (s *stream) Next(ctx context.Context) ([]waiter.Event, error) {
	if s.dead != nil {
		return nil, s.dead
	}
	if s.inUse.Swap(true) {
		panic("bug: Next during Next or Close")
	}
	defer s.inUse.Store(false)
	events, err := call(ctx, s.c, OpNext, "", func() ([]waiter.Event, error) { return s.next(ctx) })
	s.dead = err
	return events, err
}

func (s *stream) next(ctx context.Context) ([]waiter.Event, error) {
	empty := time.NewTimer(s.await)
	defer empty.Stop()
	for {
		s.c.srv.mu.Lock()
		events, err := s.events, s.err
		s.events = nil
		s.c.srv.mu.Unlock()
		if s.names != nil {
			events = slices.DeleteFunc(events, func(e waiter.Event) bool { return !slices.Contains(s.names, e.Name) })
		}
		switch {
		case len(events) > 0:
			return events, nil
		case err != nil:
			return nil, err
		}
		select {
		case <-s.wake:
		case <-empty.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close implements [waiter.Stream].
func (s *stream) Close(context.Context) {
	if s.inUse.Swap(true) {
		panic("bug: Close during Next")
	}
	s.close()
}
