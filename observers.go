package fairlock

import (
	"context"
	"fmt"
	"runtime/debug"
)

// Observers is one observer for several: each function calls theirs, in their order, and each is given the context that the one before it has
// returned. nil ones are left out. One that panics costs the others nothing.
func Observers(all ...*Observer) *Observer {
	o := &Observer{}
	for _, next := range all {
		if next == nil {
			continue
		}
		o.Made, o.Closed = both(o.Made, next.Made), both(o.Closed, next.Closed)
		o.Acquiring, o.Acquired = through(o.Acquiring, next.Acquiring), through(o.Acquired, next.Acquired)
		o.Ended = bothUnder(o.Ended, next.Ended)
		o.Renewed, o.StreamOpened = both(o.Renewed, next.Renewed), both(o.StreamOpened, next.StreamOpened)
		o.StreamFailed, o.Reaped = both(o.StreamFailed, next.StreamFailed), both(o.Reaped, next.Reaped)
	}
	return o
}

func both[T any](a, b func(T)) func(T) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(v T) {
		first := guard(func() { a(v) })
		first.and(guard(func() { b(v) })).again()
	}
}

func bothUnder[T any](a, b func(context.Context, T)) func(context.Context, T) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(ctx context.Context, v T) {
		first := guard(func() { a(ctx, v) })
		first.and(guard(func() { b(ctx, v) })).again()
	}
}

func through[T any](a, b func(context.Context, T) context.Context) func(context.Context, T) context.Context {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(ctx context.Context, v T) context.Context {
		first := guard(func() { ctx = orElse(a(ctx, v), ctx) })
		if first != nil {
			ctx = orElse(first.ctx, ctx)
		}
		second := guard(func() { ctx = orElse(b(ctx, v), ctx) })
		p := first.and(second)
		if p != nil {
			p.ctx = ctx
		}
		p.again()
		return ctx
	}
}

func orElse(ctx, or context.Context) context.Context {
	if ctx == nil {
		return or
	}
	return ctx
}

// panicked is what one of several observers panicked with. It is panicked with in its turn when the others have been called, so that whoever calls an
// observer has to know of one kind of panic, and hears of all.
type panicked struct {
	what  any
	stack []byte
	next  *panicked       // the one after it
	ctx   context.Context // what the others have made of theirs; nil: nothing
}

func (p *panicked) Error() string { return fmt.Sprint(p.what) }

// guard calls f and returns its panic.
func guard(f func()) (p *panicked) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *panicked:
			p = r
		default:
			p = &panicked{what: r, stack: debug.Stack()}
		}
	}()
	f()
	return nil
}

// and is p with what came after it.
func (p *panicked) and(after *panicked) *panicked {
	if p == nil {
		return after
	}
	last := p
	for last.next != nil {
		last = last.next
	}
	last.next = after
	return p
}

// again goes on with a panic, if there was one.
func (p *panicked) again() {
	if p != nil {
		panic(p)
	}
}
