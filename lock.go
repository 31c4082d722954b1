package fairlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/reaper"
)

// Lock is a lock that was granted. It is safe for concurrent use. It ends with Unlock, or when it is lost; either is
// final, and the same lock can then be taken anew by another call of [Manager.Lock].
type Lock struct {
	line  *line
	claim *claim
	from  *arrival
	lease *reaper.Lease
	term  int64 // the lease's term at the grant: a break since then is a loss, even when it has been mended
	set   *Set  // what LockAll took it with; nil: nothing

	mu        sync.Mutex      // guards all below
	parent    context.Context // of the call that took it; with an observer, what that has made of it
	hold      *hold           // nil: no observer, or it was told the end
	ctx       context.Context // made when first asked for
	cancel    context.CancelCauseFunc
	lost      *LostError
	lostAt    clock.Instant // as this process noticed
	holdUntil clock.Instant // 0: no limit
	holdTimer *time.Timer
	released  bool          // Unlock was called
	handed    chan struct{} // closed when Unlock has given the units back and set settling; nil before
	settling  *settling     // nil: passed on inside this process
	requested chan struct{} // closed when the lock is asked for; nil while the holder does not want to know
	asked     bool          // somebody has asked for it: requested is closed, if there is one
}

// newLock makes the lock of a claim that is about to be granted. The caller holds the line's mutex.
func newLock(l *line, c *claim) *Lock {
	return &Lock{line: l, claim: c, from: c.from, lease: c.run.lease, term: c.run.lease.Term(), parent: c.opts.parent}
}

// start begins the hold. The caller holds the line's mutex.
func (l *Lock) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLocked(1)
	if d := l.claim.opts.maxHold; d > 0 {
		l.limitHoldLocked(d)
	}
}

// limitHold is [MaxHold] for a lock that has none yet.
func (l *Lock) limitHold(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil && !l.released {
		l.limitHoldLocked(d)
	}
}

func (l *Lock) limitHoldLocked(d time.Duration) {
	l.holdUntil = l.line.m.clock.Now().Add(d)
	l.holdTimer = time.AfterFunc(d, l.holdOver)
}

// trusted is the rule of trust (I4): the session has been trusted without a break since the grant, and the ticket stands or
// no reaper can have missed it yet. All on this process's own clock.
func (l *Lock) trusted() bool {
	return l.lease.Trusted(l.term) && l.from.trusted(l.line.m.clock.Now())
}

// countLocked counts the lock among those that callers have, or no more. The manager's own is none. The caller holds mu.
func (l *Lock) countLocked(n int64) {
	if l.line.name != sweepName {
		l.line.m.stats.held.Add(n)
	}
}

// given is the context that was given to the call that took the lock.
func (l *Lock) given() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parent
}

// Name is the lock's name.
func (l *Lock) Name() string { return l.line.name }

// Token is the fencing token: it is larger than that of every earlier holder of the lock, whatever failed
// or was dropped in between, and the number by which this holder stood in line. A resource that refuses a token
// smaller than one it has seen is safe from holders that do not yet know that they have lost the lock.
func (l *Lock) Token() int64 { return l.claim.num.Lo }

// Context is cancelled when the lock is lost or unlocked; context.Cause is then a [*LostError] or [ErrUnlocked]. It
// carries the values of the context that was given to Lock, not its deadline or cancellation. It is a convenience:
// after the process has been paused the timer behind it can fire late. Err is the proof.
func (l *Lock) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(l.mark(context.WithoutCancel(l.parent)))
		switch {
		case l.lost != nil:
			l.cancel(l.lost)
		case l.released:
			l.cancel(ErrUnlocked)
		}
	}
	return l.ctx
}

// Err is nil while the lock is held, as this process's own clock shows at the moment of the call; time that the machine was
// asleep counts. Call it right before a step that must not be taken without the lock. After a loss it is a
// [*LostError], after Unlock [ErrUnlocked]. It makes no database call.
func (l *Lock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.judgeLocked(); err != nil {
		return err
	}
	if l.released {
		return ErrUnlocked
	}
	return nil
}

// Left is how long the lock will be trusted if nothing is renewed from now on: time that a step surely has before the
// lock could be lost. It is zero when Err is not nil. It makes no database call.
func (l *Lock) Left() time.Duration {
	left := l.left()
	if l.set == nil {
		return left
	}
	// Losing one is losing all, but for those that were unlocked before.
	for _, other := range l.set.locks {
		if !errors.Is(other.Err(), ErrUnlocked) {
			left = min(left, other.left())
		}
	}
	return left
}

// left is Left of the lock by itself.
func (l *Lock) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.judgeLocked() != nil || l.released {
		return 0
	}
	until := l.lease.Until()
	if !l.from.ticket.ok.Load() {
		until = min(until, l.from.deadline())
	}
	if l.holdUntil != 0 {
		until = min(until, l.holdUntil)
	}
	return max(until.Sub(l.line.m.clock.Now()), 0)
}

// judgeLocked judges trust by the clock, and returns the loss if there is one. The caller holds mu.
func (l *Lock) judgeLocked() error {
	if l.lost == nil && !l.released {
		now := l.line.m.clock.Now()
		switch {
		case !l.lease.Trusted(l.term):
			if l.lease.State() == reaper.Ended {
				l.loseLocked(LostSession)
			} else {
				l.loseLocked(LostLease)
			}
		case !l.from.trusted(now):
			l.loseLocked(LostTicket)
		case l.holdUntil != 0 && now >= l.holdUntil:
			l.loseLocked(LostMaxHold)
		}
	}
	if l.lost != nil {
		return l.lost
	}
	return nil
}

// lose ends the lock without the caller's doing, and reports whether its units must rest before others are admitted in its place: the holder has
// not said yet that he is done, or there is a lock-delay.
func (l *Lock) lose(why LossReason) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil && !l.released {
		l.loseLocked(why)
	}
	return !l.released || l.delayedLocked()
}

// delayed reports whether the units of a lost lock rest for the lock-delay, whatever its holder says: what he has started may go on.
func (l *Lock) delayed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delayedLocked()
}

func (l *Lock) delayedLocked() bool {
	if l.lost == nil || l.line.m.cfg.LockDelay == 0 {
		return false
	}
	switch l.lost.Reason {
	case LostClosed, LostForced:
		return false // no failure
	}
	return true
}

// loseLocked tells the holder. Its units are given back when it calls Unlock (not before a lock-delay is over), or Margin later: that long it has to stop before
// anybody can be admitted in its place, where it is this process that decides. The caller holds mu.
func (l *Lock) loseLocked(why LossReason) {
	m := l.line.m
	l.lost, l.lostAt = &LostError{Name: l.line.name, Token: l.Token(), Reason: why}, m.clock.Now()
	if l.line.name != sweepName { // the manager's own, of which users know nothing
		m.stats.lost.Add(1)
		l.countLocked(-1)
		l.endHoldLocked(l.lostAt, l.lost)
		m.log().Warn("fairlock: lock lost", "lock", l.line.name, "token", l.Token(), "reason", why.String())
	}
	if l.cancel != nil {
		l.cancel(l.lost)
	}
	if l.holdTimer != nil {
		l.holdTimer.Stop()
	}
	switch why {
	case LostClosed:
	case LostForced:
		m.after(m.cfg.Margin, func() { l.giveBack() }) // elsewhere the next was admitted at once: no delay
	default:
		m.after(m.cfg.rest(), func() { l.giveBack() })
	}
}

// discard ends a lock that its caller never got.
func (l *Lock) discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil && !l.released {
		l.countLocked(-1)
		l.endHoldLocked(l.line.m.clock.Now(), nil)
	}
	l.released = true
	if l.holdTimer != nil {
		l.holdTimer.Stop()
	}
}

// giveBack returns the units to the line, once. It returns the settling that was started, if any.
func (l *Lock) giveBack() *settling {
	l.line.mu.Lock()
	defer l.line.mu.Unlock()
	if l.claim.state != held {
		return nil
	}
	return l.line.release(l.claim)
}

// holdOver runs when the time of MaxHold has passed, or seems to: Extend may have moved it.
func (l *Lock) holdOver() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil || l.released {
		return
	}
	if left := l.holdUntil.Sub(l.line.m.clock.Now()); left > 0 {
		l.holdTimer.Reset(left)
		return
	}
	l.loseLocked(LostMaxHold)
}

// Extend moves the end of a lock taken with [MaxHold] to d from now, earlier or later than before. It makes no database
// call, since the limit is kept by this process and the lease is renewed in any case. A lock that was lost or unlocked
// cannot be extended, and one without MaxHold is [ErrNoMaxHold].
func (l *Lock) Extend(d time.Duration) error {
	if d <= 0 {
		return invalidOption("Extend", d, "must be positive")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.judgeLocked(); err != nil {
		return err
	}
	switch {
	case l.released:
		return ErrUnlocked
	case l.holdUntil == 0:
		return ErrNoMaxHold
	}
	l.holdUntil = l.line.m.clock.Now().Add(d)
	l.holdTimer.Reset(d)
	return nil
}

// Unlock gives the lock back and waits until a majority of the database has it, so that the next in line, wherever it
// is, is admitted; when that is a caller in this process it is admitted at once, without a write. It may be called any number of
// times, and returns the same each time.
//
// It returns nil when the lock was held until this call, and an error that matches [ErrLost] when it had been lost before,
// at once; with Config.LockDelay it is then given back when that is over. When ctx ends first it returns that error; the lock is given back in the background all the same, also when
// ctx had ended before the call. So it is when the database refuses for good, for want of a privilege ([ErrPrivilege]) or because the
// lock's document was spoiled ([ErrMalformed]): it is given back as soon as that is over.
func (l *Lock) Unlock(ctx context.Context) error {
	l.mu.Lock()
	first := l.handed == nil
	var h *hold // to be told of, by this call
	var over clock.Instant
	if first {
		if l.judgeLocked() == nil && !l.released {
			l.countLocked(-1)
			if h, l.hold = l.hold, nil; h != nil {
				over = l.line.m.clock.Now()
			}
		}
		l.released = true
		l.handed = make(chan struct{})
		if l.holdTimer != nil {
			l.holdTimer.Stop()
		}
		if l.cancel != nil {
			// Before the units go back: whoever works under this context must not work beside the next holder.
			l.cancel(ErrUnlocked)
		}
	}
	l.mu.Unlock()
	if first {
		var s *settling
		if !l.delayed() {
			s = l.giveBack()
		}
		l.mu.Lock()
		l.settling = s
		l.mu.Unlock()
		close(l.handed)
	}
	err := l.outcome(ctx)
	if h != nil {
		l.line.m.observing.unlocked(h, over, err)
	}
	return err
}

// outcome waits for what became of Unlock.
func (l *Lock) outcome(ctx context.Context) error {
	<-l.handed
	l.mu.Lock()
	lost, s := l.lost, l.settling
	l.mu.Unlock()
	switch {
	case lost != nil:
		return lost
	case s == nil:
		return nil
	}
	select {
	case <-s.told:
	case <-ctx.Done():
		select {
		case <-s.told:
		default:
			return ctx.Err()
		}
	}
	switch {
	case s.why != nil:
		return s.why // nothing else of s may be read, it goes on
	case !s.lost:
		return s.err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = &LostError{Name: l.line.name, Token: l.Token(), Reason: LostSettled}
		l.line.m.stats.lost.Add(1)
	}
	return l.lost
}
