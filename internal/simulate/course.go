package simulate

import (
	"context"
	"time"

	"github.com/fairlock/fairlock/internal/memstore"
)

// take counts a call and tells what decides its course: whether the process dies of it, and a source of chance.
func (p *process) take(at memstore.Point, op memstore.Op, name string) (d draw, dies bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := callKey{at, op, name}
	p.made[k]++
	d = newDraw(uint64(p.w.plan.Seed), uint64(p.id), uint64(at), of(string(op)), of(name), p.made[k])
	for i, t := range p.traps {
		if t.Point == at && (t.Op == op || t.Op == memstore.OpAny && isWrite(op)) {
			p.traps = append(p.traps[:i:i], p.traps[i+1:]...)
			return d, true
		}
	}
	return d, false
}

// course is what happens to one call on its way to the server, and back.
func (p *process) course(ctx context.Context, at memstore.Point, op memstore.Op, name string) error {
	if p.w.trace == nil {
		return p.steer(ctx, at, op, name)
	}
	way := "sends"
	if at == memstore.After {
		way = "is answered"
	}
	p.w.tracef("process %d %s %s %q", p.id, way, op, name)
	err := p.steer(ctx, at, op, name)
	p.w.tracef("process %d %s %s %q: arrived, %v", p.id, way, op, name, err)
	return err
}

func (p *process) steer(ctx context.Context, at memstore.Point, op memstore.Op, name string) error {
	w := p.w
	if slept := p.sleeps(); at == memstore.Before && !p.runs() || p.isDead() {
		return errDead
	} else if slept || ctx.Err() != nil && at == memstore.After {
		// Deadlines are timers, and stood still like everything else (those of a suspended machine do).
		ctx = context.WithoutCancel(ctx)
	}
	d, dies := p.take(at, op, name)
	if dies {
		p.die()
		if at == memstore.Before && d.chance(0.4) {
			return w.later(errDead, d.between(0, 2*time.Second)) // it was sent, and outlives the sender
		}
		return errDead
	}
	err := p.travel(ctx, &d, at, op)
	if at == memstore.After && !p.runs() || p.isDead() {
		return errDead
	}
	if err != nil && at == memstore.Before && isWrite(op) && d.chance(0.4) {
		return w.later(err, d.between(0, 3*time.Second))
	}
	return err
}

// travel takes the time of one way, and says whether it ended in the void.
func (p *process) travel(ctx context.Context, d *draw, at memstore.Point, op memstore.Op) error {
	w := p.w
	if op == memstore.OpNext && at == memstore.Before {
		return nil // it waits at the server
	}
	way := d.between(100*time.Microsecond, 500*time.Microsecond)
	switch {
	case isWrite(op):
		way = d.between(time.Millisecond, 4*time.Millisecond)
	case op == memstore.OpNext:
		way = d.between(100*time.Microsecond, 2*time.Millisecond)
	}
	if d.chance(0.02) {
		way += d.between(0, 100*time.Millisecond)
	}
	if w.active(Slow, p.slot) != nil && isWrite(op) {
		way += d.between(0, time.Second)
	}
	if w.slowFailover() && isWrite(op) {
		way += d.between(900*time.Millisecond, 1100*time.Millisecond)
	}
	if f := w.active(Lossy, p.slot); f != nil && (f.Op == op || f.Op == memstore.OpAny) && d.chance(f.P/2) {
		if d.chance(0.4) {
			way += d.between(0, 4*time.Second)
		} else {
			if err := p.sleep(ctx, way); err != nil {
				return err
			}
			return memstore.ErrNoReply
		}
	}
	if err := p.sleep(ctx, way); err != nil {
		return err
	}
	for {
		f := w.active(Cut, p.slot)
		if f == nil {
			f = w.active(Failover, p.slot)
		}
		if f == nil {
			return nil
		}
		// What was sent is sent again by the network when it is whole, or given up before.
		if err := p.sleep(ctx, w.until(f.To)+d.between(time.Microsecond, 20*time.Millisecond)); err != nil {
			return err
		}
		if d.chance(0.3) {
			return memstore.ErrNoReply
		}
	}
}

// sleep lets time pass, as long as the caller waits and the process lives.
func (p *process) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.gone:
		return errDead
	}
}

// later leaves a write for later.
func (w *world) later(err error, d time.Duration) error {
	return &memstore.Later{Err: err, Take: func(effect func()) {
		w.laters.Add(1)
		time.AfterFunc(d, func() {
			w.tracef("a late write takes effect")
			effect()
			w.laters.Add(-1)
		})
	}}
}
