package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/history"
)

const (
	// askPause is how often a holder that does nothing asks for its trust.
	askPause = 20 * time.Millisecond
	// busyPause is what a caller rests after a try that failed.
	busyPause = 2 * time.Millisecond
	// failPause is what a caller rests after a call that failed for another reason.
	failPause = 20 * time.Millisecond
	// mostPatience is the longest that a call which is to be cancelled may wait.
	mostPatience = 40 * time.Millisecond
	// readEvery is how many critical sections have one linearizable read.
	readEvery = 8
)

// loop is one caller.
func (w *worker) loop(n int) {
	rng := rand.New(rand.NewPCG(w.cfg.Seed, uint64(w.cfg.Proc)<<16|uint64(n))) //nolint:gosec // chooses what to do
	for {
		select {
		case <-w.stopped:
			return
		default:
		}
		lock := w.cfg.Locks[rng.IntN(len(w.cfg.Locks))]
		roll := rng.IntN(100)
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if roll -= w.cfg.Try; roll >= 0 && roll < w.cfg.Cancel {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.Int64N(int64(mostPatience))))
		}
		err := w.turn(ctx, lock, roll < 0, rng.IntN(readEvery) == 0)
		cancel()
		pause := time.Duration(0)
		switch {
		case errors.Is(err, fairlock.ErrBusy):
			pause = busyPause
		case err != nil && ctx.Err() == nil:
			pause = failPause
		}
		if w.cfg.Think > 0 {
			pause += time.Duration(rng.Int64N(int64(w.cfg.Think)))
		}
		w.rest(pause)
	}
}

// rest returns after d, or when the callers are to stop.
func (w *worker) rest(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.stopped:
	}
}

// turn is one call and, if it is granted, one critical section. The error is that of the call.
func (w *worker) turn(ctx context.Context, lock string, try, read bool) error {
	h, err := w.acquire(ctx, lock, try)
	if err != nil {
		return err
	}
	if h.trusts() {
		h.write()
		if read {
			w.registers.read(context.Background(), lock)
		}
		w.rest(w.cfg.Hold)
		h.trusts()
	}
	h.release()
	return nil
}

// hold takes a lock and keeps it until it is told to go on. It tells when it has it and when it was told of a loss; and then it
// writes to the register all the same, as a program does that does not ask.
func (w *worker) hold(lock string, resume <-chan struct{}) {
	h, err := w.acquire(context.Background(), lock, false)
	if err != nil {
		w.say(report{Op: "held", Lock: lock, Err: err.Error()})
		return
	}
	h.trusts()
	h.write()
	w.say(report{Op: "held", Lock: lock, Token: h.lock.Token()})
	tick := time.NewTicker(askPause)
	defer tick.Stop()
	for on := true; on; {
		select {
		case <-tick.C:
			if !h.trusts() {
				w.say(report{Op: "told", Lock: lock, Token: h.lock.Token(), Err: h.err.Error()})
				h.write()
				<-resume
				on = false
			}
		case <-resume:
			on = false
		}
	}
	h.trusts()
	h.release()
	w.say(report{Op: "resumed", Lock: lock, Token: h.lock.Token()})
}

// holding is a lock that was granted to a call.
type holding struct {
	w    *worker
	lock *fairlock.Lock
	call int64
	err  error // the loss that was told
}

// acquire makes one call and takes down how it ended.
func (w *worker) acquire(ctx context.Context, lock string, try bool) (*holding, error) {
	e := history.Event{Kind: history.Call, At: clock.System.Now(), Proc: w.cfg.Proc, Call: w.calls.Add(1), Lock: lock, Units: 1, Permits: 1}
	w.rec.Record(e)
	var l *fairlock.Lock
	var err error
	if try {
		l, err = w.m.TryLock(ctx, lock)
	} else {
		if p := w.deadly.Load(); p != nil && *p == Waiting {
			defer time.AfterFunc(2*w.cfg.TicketDelay, func() { w.die(Waiting, lock) }).Stop()
		}
		l, err = w.m.Lock(ctx, lock)
	}
	e.At = clock.System.Now()
	e.Units, e.Permits = 0, 0
	if err != nil {
		e.Kind, e.Err = history.Failed, err.Error()
		w.rec.Record(e)
		return nil, err
	}
	e.Kind, e.Lo, e.Hi = history.Granted, l.Token(), l.Token()
	w.rec.Record(e)
	w.die(JustGranted, lock)
	return &holding{w: w, lock: l, call: e.Call}, nil
}

func (h *holding) record(e history.Event) {
	e.Proc, e.Call, e.Lock = h.w.cfg.Proc, h.call, h.lock.Name()
	h.w.rec.Record(e)
}

// trusts asks whether the lock is held, and takes the answer down. The time of the question is taken before it is asked, so what is
// left counts from too early a moment, and the end of the trust comes out too early and never too late.
func (h *holding) trusts() bool {
	at := clock.System.Now()
	if left := h.lock.Left(); left > 0 {
		h.record(history.Event{Kind: history.Trusted, At: at, Until: at.Add(left)})
		return true
	}
	h.lose(h.lock.Err())
	return false
}

// lose takes down that a loss was told, once.
func (h *holding) lose(err error) {
	if h.err != nil {
		return
	}
	if err == nil {
		err = errNothingLeft
	}
	h.err = err
	h.record(history.Event{Kind: history.Lost, At: clock.System.Now(), Err: err.Error()})
}

// errNothingLeft: Left was zero and Err nil a moment later. Between the two the lease must have been renewed.
var errNothingLeft = errors.New("nothing was left, and then the lock was held")

func (h *holding) write() {
	h.w.registers.write(context.Background(), h.lock.Name(), h.lock.Token(), fmt.Sprintf("p%d.%d.%d", h.w.cfg.Proc, h.call, h.w.calls.Add(1)))
}

func (h *holding) release() {
	h.record(history.Event{Kind: history.Released, At: clock.System.Now()})
	if err := h.lock.Unlock(context.Background()); errors.Is(err, fairlock.ErrLost) {
		h.lose(err)
	}
}
