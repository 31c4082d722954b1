package memstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/fairlock/fairlock/waiter"
)

// Op names a call.
type Op string

// The calls. OpBuryRead is the second half of Bury.
const (
	OpAny Op = "" // in Hook: every call

	OpEnqueue     Op = "Enqueue"
	OpTry         Op = "Try"
	OpSettle      Op = "Settle"
	OpSetPermits  Op = "SetPermits"
	OpRequest     Op = "RequestRelease"
	OpForce       Op = "Force"
	OpViews       Op = "Views"
	OpView        Op = "View"
	OpGone        Op = "Gone"
	OpPage        Op = "Page"
	OpBusyLocks   Op = "BusyLocks"
	OpPutTicket   Op = "PutTicket"
	OpMarkPassed  Op = "MarkPassed"
	OpCollect     Op = "Collect"
	OpDropTickets Op = "DropTickets"
	OpBury        Op = "Bury"
	OpBuryRead    Op = "Bury/read"
	OpTickets     Op = "Tickets"
	OpOfSession   Op = "TicketsOfSession"
	OpAllTickets  Op = "AllTickets"

	OpBeginSession Op = "Sessions.Begin"
	OpRenew        Op = "Sessions.Renew"
	OpTell         Op = "Sessions.Tell"
	OpEndSession   Op = "Sessions.End"
	OpBurySession  Op = "Sessions.Bury"
	OpRemove       Op = "Sessions.Remove"
	OpMarkCleared  Op = "Sessions.MarkCleared"
	OpGetSessions  Op = "Sessions.Get"
	OpServerTime   Op = "Sessions.Now"
	OpUncleared    Op = "Sessions.Uncleared"

	OpSourceViews  Op = "Source.Views"
	OpBegin        Op = "Source.Begin"
	OpOpeningViews Op = "Opening.Views"
	OpOpen         Op = "Opening.Open"
	OpNext         Op = "Stream.Next"
)

// Point is where in a call a hook runs.
type Point uint8

const (
	// Before the call takes effect.
	Before Point = iota
	// After it took effect; an error then is a lost reply.
	After
)

// Hook is called in the caller's goroutine and may block, but not longer than ctx. name is the lock or session that the
// call is about, "" when it is about several. With an error the call returns at once.
type Hook func(ctx context.Context, name string) error

// Course is a hook of all calls that is told where it stands. Like a Hook it runs in the caller's goroutine.
type Course func(ctx context.Context, at Point, op Op, name string) error

// Later is what a hook before a call returns to leave its effect for later: the caller gets Err at once, and whoever has made the
// hook calls what Take is given when the effect is due, or never. That is the third of the unknown outcomes: still to be done.
type Later struct {
	Err  error
	Take func(effect func())
}

func (l *Later) Error() string { return l.Err.Error() }

// Unwrap makes Err match.
func (l *Later) Unwrap() error { return l.Err }

// Client is one process's connection. It is safe for concurrent use.
type Client struct {
	srv *Server

	mu      sync.Mutex // guards all below
	course  Course
	hooks   []*hooked
	calls   map[Op]int
	frozen  *state // not nil: what reads show
	newer   bool   // a write was acknowledged since Freeze, so no write goes to the old server any more
	deliver func(waiter.Event) int
}

type hooked struct {
	at Point
	op Op
	do Hook
}

// Client returns a new connection.
func (s *Server) Client() *Client { return &Client{srv: s, calls: map[Op]int{}} }

// Hook makes do run at a point of all calls of op until remove is called. Hooks run in the order in which they were added.
func (c *Client) Hook(at Point, op Op, do Hook) (remove func()) {
	h := &hooked{at, op, do}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooks = append(slices.Clone(c.hooks), h)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.hooks = slices.DeleteFunc(slices.Clone(c.hooks), func(x *hooked) bool { return x == h })
	}
}

// Steer makes course run at both points of every call, after the hooks. nil ends it.
func (c *Client) Steer(course Course) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.course = course
}

// Calls is how often op was called.
func (c *Client) Calls(op Op) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[op]
}

// Freeze makes the client see the server as it is now, until Thaw.
func (c *Client) Freeze() {
	c.srv.mu.Lock()
	now := c.srv.now.snapshot()
	c.srv.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen, c.newer = now, false
}

// Thaw ends Freeze.
func (c *Client) Thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = nil
}

// Deliver makes the client's streams deliver each event as often as copies says; nil is once. copies must not call
// the store.
func (c *Client) Deliver(copies func(waiter.Event) int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deliver = copies
}

func (c *Client) copies(e waiter.Event) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deliver == nil {
		return 1
	}
	return c.deliver(e)
}

func (c *Client) past() *state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frozen
}

// writePast is what a write that changes nothing may be answered from.
func (c *Client) writePast() *state {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newer {
		return nil
	}
	return c.frozen
}

// run runs the hooks of one point.
func (c *Client) run(ctx context.Context, at Point, op Op, name string) error {
	c.mu.Lock()
	hooks, course := c.hooks, c.course
	if at == Before {
		c.calls[op]++
	}
	c.mu.Unlock()
	for _, h := range hooks {
		if h.at == at && (h.op == op || h.op == OpAny) {
			if err := h.do(ctx, name); err != nil {
				return err
			}
		}
	}
	if course != nil {
		return course(ctx, at, op, name)
	}
	return nil
}

// reach is one call: the hooks before, the effect, the hooks after. answered is whether the effect was made and its answer came.
func (c *Client) reach(ctx context.Context, op Op, name string, effect func() error) (answered bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := c.run(ctx, Before, op, name); err != nil {
		var later *Later
		if errors.As(err, &later) {
			later.Take(func() { _ = effect() })
			return false, later.Err
		}
		return false, err
	}
	err = effect()
	if lost := c.run(ctx, After, op, name); lost != nil {
		return false, lost
	}
	return true, err
}

// call is reach with an answer. The answer is in the heap: calls are made by goroutines that live for one call and begin with a small stack, and
// to make stacks grow was a third of what an acquisition costs. An effect that comes later writes to it when nobody reads it any more.
func call[T any](ctx context.Context, c *Client, op Op, name string, effect func() (T, error)) (reply T, err error) {
	r := new(T)
	answered, err := c.reach(ctx, op, name, func() (err error) {
		*r, err = effect()
		return err
	})
	if answered {
		reply = *r
	}
	return reply, err
}

// read is a call that changes nothing, and may be served from the past.
func read[T any](ctx context.Context, c *Client, op Op, name string, f func(*state) T) (T, error) {
	return call(ctx, c, op, name, func() (T, error) {
		past := c.past()
		c.srv.mu.Lock()
		defer c.srv.mu.Unlock()
		if past != nil {
			return f(past), nil
		}
		return f(c.srv.now), nil
	})
}

// write is a call that changes something, which f reports. One that would change nothing in the past that the client
// sees is answered from there, until a write of this client was acknowledged: from then on the driver knows of the newer
// primary's election and sends to no older one.
func write[T any](ctx context.Context, c *Client, op Op, name string, f func(*state) (reply T, changed bool, err error)) (reply T, err error) {
	type answer struct {
		reply T
		newer bool
	}
	a := new(answer) // see call
	answered, err := c.reach(ctx, op, name, func() (err error) {
		past := c.writePast()
		c.srv.mu.Lock()
		defer c.srv.mu.Unlock()
		if past != nil {
			var changed bool
			if a.reply, changed, err = f(past.snapshot()); !changed {
				return err
			}
		}
		a.reply, a.newer, err = f(c.srv.now)
		return err
	})
	if !answered {
		return reply, err
	}
	if a.newer && err == nil {
		c.mu.Lock()
		c.newer = true
		c.mu.Unlock()
	}
	return a.reply, err
}
