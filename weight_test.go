package fairlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/queue"
)

// The line knows locks of several permits and claims of several units, though nothing public makes them yet.

var pool = queue.Shape{Kind: "pool", Permits: 3}

// beginUnits is begin for a claim of several units.
func (p *proc) beginUnits(name string, shape queue.Shape, units int64) *attempt {
	return p.b.attempt(func(ctx context.Context) (*Lock, error) {
		l, err := p.enter(name, shape)
		if err != nil {
			return nil, err
		}
		defer p.tasks.done()
		c := &claim{units: units, opts: &options{parent: ctx}, ready: make(chan struct{})}
		l.mu.Lock()
		l.pending = append(l.pending, c)
		l.ask()
		l.mu.Unlock()
		select {
		case <-c.ready:
			return c.lock, c.err
		case <-ctx.Done():
			_ = l.abandon(c)
			return nil, ctx.Err()
		}
	})
}

func TestSeveralHold(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		one := p.beginUnits("x", pool, 1)
		two := q.beginUnits("x", pool, 2)
		l1, l2 := one.granted(), two.granted()
		big := p.beginUnits("x", pool, 3)
		small := q.beginUnits("x", pool, 1)
		b.unlock(l2)
		require.False(b.t, big.over())
		require.False(b.t, small.over(), "it would fit and does not overtake")
		b.unlock(l1)
		l3 := big.granted()
		require.False(b.t, small.over())
		b.unlock(l3)
		b.unlock(small.granted())
		b.requireIdle("x")
	})
}

func TestOtherShapeIsRefusedInTheProcess(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		l := p.beginUnits("x", pool, 1).granted()
		require.ErrorIs(b.t, p.begin("x").failed(), ErrMismatch)
		b.unlock(l)
		require.ErrorIs(b.t, p.begin("x").failed(), ErrMismatch, "and by the document")
	})
}

// model is a semaphore in plain Go: who should hold after every step, if order is strict and nothing is wasted.
type model struct {
	permits int64
	line    []*unit // in order; those that hold are a beginning of it
}

type unit struct {
	units int64
	a     *attempt
	held  bool
}

// admit moves on whoever fits, in order, and returns the units in use.
func (m *model) admit() (used int64) {
	blocked := false
	for _, u := range m.line {
		blocked = blocked || !u.held && used+u.units > m.permits
		if u.held || !blocked {
			u.held = true
			used += u.units
		}
	}
	return used
}

func (m *model) remove(u *unit) {
	m.line = slices.DeleteFunc(m.line, func(x *unit) bool { return x == u })
}

// TestLineAgainstModel drives several processes through random calls, cancellations and releases, and compares who holds
// with the model after every step: strict order, never more than the permits, nobody left waiting who should hold (I4, I5, I7).
func TestLineAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(b *bed) { b.againstModel(queue.Mutex, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func (b *bed) againstModel(shape queue.Shape, rnd *rand.Rand) {
	procs := []*proc{b.proc(), b.proc(), b.proc()}
	permits := shape.Permits
	m := model{permits: permits}
	check := func(step string) {
		used := m.admit()
		require.LessOrEqual(b.t, used, permits)
		allHeld := func() bool {
			synctest.Wait()
			return !slices.ContainsFunc(m.line, func(u *unit) bool { return u.held && !u.a.over() })
		}
		for began := time.Now(); !allHeld() && time.Since(began) < longestDoze; {
			time.Sleep(time.Millisecond)
		}
		for i, u := range m.line {
			require.Equal(b.t, u.held, u.a.over(), "%s: call %d of %d, of %d units", step, i, len(m.line), u.units)
			if u.held {
				require.NoError(b.t, u.a.err)
				require.NoError(b.t, u.a.lock.Err())
			}
		}
	}
	for step := range 150 {
		switch n := rnd.IntN(10); {
		case n < 5 && len(m.line) < 12 || len(m.line) == 0:
			u := &unit{units: 1 + rnd.Int64N(permits)}
			u.a = procs[rnd.IntN(len(procs))].beginUnits("x", shape, u.units)
			m.line = append(m.line, u)
			check(fmt.Sprintf("%d: begin %d", step, u.units))
		case n == 9:
			time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
			check(fmt.Sprintf("%d: time", step))
		default:
			u := m.line[rnd.IntN(len(m.line))]
			if n < 8 {
				u = m.line[0]
			}
			if u.held && u.units > 1 && rnd.IntN(2) == 0 {
				back := 1 + rnd.Int64N(u.units-1)
				u.units -= back
				require.NoError(b.t, u.a.lock.Release(b.ctx, back))
				check(fmt.Sprintf("%d: %d given back of %d", step, back, u.units+back))
				continue
			}
			m.remove(u)
			if u.held {
				b.unlock(u.a.lock)
			} else {
				u.a.cancel()
				require.ErrorIs(b.t, u.a.failed(), context.Canceled)
			}
			check(fmt.Sprintf("%d: end of %d, held %v", step, u.units, u.held))
		}
	}
	for len(m.line) > 0 {
		u := m.line[0]
		require.True(b.t, u.held)
		m.remove(u)
		b.unlock(u.a.lock)
		check("end")
	}
	b.requireIdle("x")
	for _, p := range procs {
		require.Zero(b.t, p.Stats().Lost+p.Stats().Requeued)
	}
}
