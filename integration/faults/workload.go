package faults

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/history"
	"github.com/fairlock/fairlock/queue"
)

// Workload is what the callers of a crew take.
type Workload string

// The workloads. Whoever is alone writes to the register of its lock.
const (
	// Mutexes: Lock and TryLock.
	Mutexes Workload = ""
	// Semaphores: Acquire and TryAcquire of 1 to all of 6 permits, of which many are given back one by one.
	Semaphores Workload = "semaphore"
	// ReadWrite: three of four read, and the others write.
	ReadWrite Workload = "rw"
	// Sets: LockAll of 1 to 4 locks.
	Sets Workload = "set"
	// Elections: Campaign and Resign. Leaders look now and then who leads.
	Elections Workload = "election"
)

// writes reports whether any caller is ever alone.
func (l Workload) writes() bool { return l != Semaphores }

const (
	permits  = 6
	mostInOf = 4 // names of one LockAll
)

// demand is what a call asks for.
type demand struct {
	locks          []string // more than one only of a set
	units, permits int64
	try, set       bool
}

// draw chooses what a caller asks for.
func (w *worker) draw(rng *rand.Rand) demand {
	d := demand{locks: []string{w.cfg.Locks[rng.IntN(len(w.cfg.Locks))]}, units: 1, permits: 1}
	switch w.cfg.Workload {
	case Semaphores:
		d.units, d.permits = 1+rng.Int64N(permits), permits
	case ReadWrite:
		d.permits = queue.Readers
		if rng.IntN(4) == 0 {
			d.units = queue.Readers
		}
	case Sets:
		d.set, d.locks = true, nil
		for _, i := range rng.Perm(len(w.cfg.Locks))[:1+rng.IntN(mostInOf)] {
			d.locks = append(d.locks, w.cfg.Locks[i])
		}
	}
	return d
}

// whole is the demand that leaves nothing for others: of a set, the lock and one beside it.
func (w *worker) whole(lock string) demand {
	d := demand{locks: []string{lock}, units: 1, permits: 1}
	switch w.cfg.Workload {
	case Semaphores:
		d.units, d.permits = permits, permits
	case ReadWrite:
		d.units, d.permits = queue.Readers, queue.Readers
	case Sets:
		d.set, d.locks = true, []string{lock, lock + beside}
	}
	return d
}

// beside follows the name of an extra lock in that of the one that is taken with it.
const beside = "+"

// take makes the call that a demand is, and returns the tokens of its locks.
func (w *worker) take(ctx context.Context, d demand) (grip, []int64, error) {
	name := d.locks[0]
	var l *fairlock.Lock
	var err error
	switch w.cfg.Workload {
	case Mutexes:
		if d.try {
			l, err = w.m.TryLock(ctx, name)
		} else {
			l, err = w.m.Lock(ctx, name)
		}
	case Semaphores:
		s, bad := w.m.Semaphore(name, d.permits)
		switch {
		case bad != nil:
			err = bad
		case d.try:
			l, err = s.TryAcquire(ctx, d.units)
		default:
			l, err = s.Acquire(ctx, d.units)
		}
	case ReadWrite:
		rw, bad := w.m.RWLock(name)
		switch reads := d.units == 1; {
		case bad != nil:
			err = bad
		case reads && d.try:
			l, err = rw.TryRLock(ctx)
		case reads:
			l, err = rw.RLock(ctx)
		case d.try:
			l, err = rw.TryLock(ctx)
		default:
			l, err = rw.Lock(ctx)
		}
	case Sets:
		s, err := w.m.LockAll(ctx, d.locks)
		if err != nil {
			return nil, nil, err
		}
		var tokens []int64
		for _, name := range d.locks {
			tokens = append(tokens, s.Lock(name).Token())
		}
		return s, tokens, nil
	case Elections:
		e, bad := w.m.Election(name)
		if bad != nil {
			return nil, nil, bad
		}
		led, err := e.Campaign(ctx, w.value())
		if err != nil {
			return nil, nil, err
		}
		return leadership{led, e}, []int64{led.Token()}, nil
	default:
		err = fmt.Errorf("faults: there is no workload %q", w.cfg.Workload)
	}
	if err != nil {
		return nil, nil, err
	}
	return l, []int64{l.Token()}, nil
}

// leadership is an election that was won, as a grip.
type leadership struct {
	*fairlock.Leadership
	of *fairlock.Election
}

func (l leadership) Unlock(ctx context.Context) error { return l.Resign(ctx) }

// value is what a process's leaders are known by.
func (w *worker) value() string { return labelOf(w.cfg.Proc) }

// look has a leader see who leads: nobody who came after it while it does, and under its token only itself. What is read may be old, or
// not be there yet.
func (h *holding) look() {
	l, ok := h.grip.(leadership)
	if !ok {
		return
	}
	seen, err := l.of.Leader(context.Background())
	if err != nil {
		return
	}
	switch held := l.Left() > 0; {
	case held && seen.Token > l.Token():
		h.w.say(report{Op: "broken", Lock: h.locks[0], Err: fmt.Sprintf("token %d leads after %d was seen to", l.Token(), seen.Token)})
	case seen.Token == l.Token() && seen.Value != h.w.value():
		h.w.say(report{Op: "broken", Lock: h.locks[0], Err: fmt.Sprintf("%q has the token %d of %q", seen.Value, seen.Token, h.w.value())})
	}
}

// reduce gives back the units of a semaphore one by one until one is left, if their number was even.
func (h *holding) reduce() {
	l, ok := h.grip.(*fairlock.Lock)
	if !ok || h.w.cfg.Workload != Semaphores || h.units%2 != 0 {
		return
	}
	for range h.units - 1 {
		h.record(history.Event{Kind: history.Reduced, At: clock.System.Now(), Units: 1})
		if err := l.Release(context.Background(), 1); err != nil {
			// It was lost: whoever asks next hears of it.
			return
		}
	}
}
