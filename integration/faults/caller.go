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
		d := w.draw(rng)
		roll := rng.IntN(100)
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if roll -= w.cfg.Try; roll >= 0 && roll < w.cfg.Cancel {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.Int64N(int64(mostPatience))))
		}
		d.try = roll < 0
		err := w.turn(ctx, d, rng.IntN(readEvery) == 0)
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
func (w *worker) turn(ctx context.Context, d demand, read bool) error {
	h, err := w.acquire(ctx, d)
	if err != nil {
		return err
	}
	if h.trusts() {
		h.write()
		if read {
			w.registers.read(context.Background(), d.locks[0])
			if h.tokens[0]%4 == 0 {
				h.look() // seldom, for it is several reads
			}
		}
		w.rest(w.cfg.Hold)
		h.reduce()
		h.trusts()
	}
	h.release()
	return nil
}

// hold takes a lock and keeps it until it is told to go on. It tells when it has it and when it was told of a loss; and then it
// writes to the register all the same, as a program does that does not ask.
func (w *worker) hold(lock string, resume <-chan struct{}) {
	h, err := w.acquire(context.Background(), w.whole(lock))
	if err != nil {
		w.say(report{Op: "held", Lock: lock, Err: err.Error()})
		return
	}
	h.trusts()
	h.write()
	w.say(report{Op: "held", Lock: lock, Token: h.tokens[0]})
	tick := time.NewTicker(askPause)
	defer tick.Stop()
	for on := true; on; {
		select {
		case <-tick.C:
			if !h.trusts() {
				w.say(report{Op: "told", Lock: lock, Token: h.tokens[0], Err: h.err.Error()})
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
	w.say(report{Op: "resumed", Lock: lock, Token: h.tokens[0]})
}

// grip is what a call has got: a lock, several, or an election.
type grip interface {
	Err() error
	Left() time.Duration
	Unlock(ctx context.Context) error
}

// holding is what was granted to a call.
type holding struct {
	demand
	w      *worker
	grip   grip
	calls  []int64 // in the history, of each lock
	tokens []int64
	err    error // the loss that was told
}

// record takes down the same of all locks.
func (h *holding) record(e history.Event) {
	for i, lock := range h.locks {
		e.Proc, e.Call, e.Lock = h.w.cfg.Proc, h.calls[i], lock
		h.w.rec.Record(e)
	}
}

// acquire makes one call and takes down how it ended.
func (w *worker) acquire(ctx context.Context, d demand) (*holding, error) {
	h := &holding{demand: d, w: w}
	for range d.locks {
		h.calls = append(h.calls, w.calls.Add(1))
	}
	call := history.Event{Kind: history.Call, At: clock.System.Now(), Units: d.units, Permits: d.permits}
	if d.set {
		call.Set = h.calls[0]
	}
	h.record(call)
	if p := w.deadly.Load(); !d.try && p != nil && *p == Waiting {
		defer time.AfterFunc(2*w.cfg.TicketDelay, func() { w.die(Waiting, d.locks[0]) }).Stop()
	}
	var err error
	h.grip, h.tokens, err = w.take(ctx, d)
	now := clock.System.Now()
	if err != nil {
		h.record(history.Event{Kind: history.Failed, At: now, Err: err.Error()})
		return nil, err
	}
	for i, lock := range d.locks {
		w.rec.Record(history.Event{Kind: history.Granted, At: now, Proc: w.cfg.Proc, Call: h.calls[i], Lock: lock,
			Lo: h.tokens[i], Hi: h.tokens[i] + d.units - 1})
	}
	w.die(JustGranted, d.locks[0])
	return h, nil
}

// trusts asks whether all is held, and takes the answer down. The time of the question is taken before it is asked, so what is
// left counts from too early a moment, and the end of the trust comes out too early and never too late.
func (h *holding) trusts() bool {
	at := clock.System.Now()
	if left := h.grip.Left(); left > 0 {
		h.record(history.Event{Kind: history.Trusted, At: at, Until: at.Add(left)})
		return true
	}
	h.lose(h.grip.Err())
	return false
}

// lose takes down that a loss was told, once. Losing one of a set is losing all, so each is asked then: the history is judged by the
// answers.
func (h *holding) lose(err error) {
	if h.err != nil {
		return
	}
	if err == nil {
		err = errNothingLeft
	}
	h.err = err
	h.record(history.Event{Kind: history.Lost, At: clock.System.Now(), Err: err.Error()})
	s, isSet := h.grip.(*fairlock.Set)
	if !isSet {
		return
	}
	for i, lock := range h.locks {
		at := clock.System.Now()
		if left := s.Lock(lock).Left(); left > 0 {
			h.w.rec.Record(history.Event{Kind: history.Trusted, At: at, Until: at.Add(left), Proc: h.w.cfg.Proc, Call: h.calls[i], Lock: lock})
		}
	}
}

// errNothingLeft: Left was zero and Err nil a moment later. Between the two the lease must have been renewed.
var errNothingLeft = errors.New("nothing was left, and then the lock was held")

// write writes to the register of the lock, of a set to that of one, unless others hold it too.
func (h *holding) write() {
	if h.units < h.permits || !h.w.cfg.Workload.writes() {
		return
	}
	h.w.registers.write(context.Background(), h.locks[0], h.tokens[0], fmt.Sprintf("p%d.%d.%d", h.w.cfg.Proc, h.calls[0], h.w.calls.Add(1)))
}

func (h *holding) release() {
	h.record(history.Event{Kind: history.Released, At: clock.System.Now()})
	if err := h.grip.Unlock(context.Background()); errors.Is(err, fairlock.ErrLost) {
		h.lose(err)
	}
}
