package memstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

var (
	// ErrNoReply stands for every failure of which the outcome is not known.
	ErrNoReply = errors.New("memstore: no reply")
	// ErrInvalidated ends streams whose collection was dropped.
	ErrInvalidated = errors.New("memstore: collection dropped")
)

// Fail is a hook that fails the next n calls with err.
func Fail(n int, err error) Hook {
	var left atomic.Int64
	left.Store(int64(n))
	return func(context.Context, string) error {
		if left.Add(-1) < 0 {
			return nil
		}
		return err
	}
}

// Hang is a hook that answers nothing until the caller gives up: a server that is frozen or cut off.
func Hang(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// Gate is a hook that holds calls until it is opened.
type Gate struct {
	reached chan struct{}
	opened  chan struct{}
	once    [2]sync.Once
}

// NewGate returns a gate that is shut.
func NewGate() *Gate { return &Gate{reached: make(chan struct{}), opened: make(chan struct{})} }

// Pass is the hook.
func (g *Gate) Pass(ctx context.Context, _ string) error {
	g.once[0].Do(func() { close(g.reached) })
	select {
	case <-g.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reached is closed when a call has come to the gate.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Open lets through all that wait and all that come. It may be repeated.
func (g *Gate) Open() { g.once[1].Do(func() { close(g.opened) }) }
