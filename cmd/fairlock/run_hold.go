//go:build linux || darwin || freebsd

package main

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/clock"
)

// hold runs the command under the lock and returns its exit status. When the lock is lost meanwhile, and --on-lost does not
// ignore that, it returns when the command is gone, with exitLost.
func (r *runner) hold(lock *fairlock.Lock) (status int, err error) {
	h := &holding{
		runner: r, lock: lock, clock: clock.System,
		// Two ticks of lateness, and what follows SIGKILL, are the slack.
		tick: max(slack(r.ttl)/10, 10*time.Millisecond),
	}
	h.tty = openTerminal()
	defer h.tty.close()
	adoptOrphans()
	g, err := startGuard(h.tick)
	if err != nil {
		return 0, exitf(exitInternal, "the command was not started: its guard cannot be: %w", err)
	}
	defer g.end()
	defer h.keep(g.until)()
	// Not before the guard's start, which may take longer than the lease.
	h.lastHeld = h.clock.Now()
	if err := lock.Err(); err != nil {
		return 0, exitf(exitLost, "%w; the command was not started", err)
	}
	h.child, err = startChild(g, r.path, r.argv, r.environ(os.Environ(), lock.Token(), r.m.Session()))
	if err != nil {
		return 0, execError(r.argv[0], err)
	}
	r.log.Info("command started", "pid", h.child.pid)
	// From here on the job may write to, and take back, a terminal whose foreground it is not.
	h.tty.prepare()
	if h.tty.shared() {
		h.tty.give(h.child.group)
	}
	ws := h.watch()
	h.tty.takeBack(h.child.group, ws.Signaled())
	if h.loss != nil && !r.action.ignore {
		h.awaitGone()
		return 0, exitCode(exitLost) // judge has told it
	}
	h.child.leave()
	r.log.Info("command ended", "status", statusOf(ws))
	return statusOf(ws), nil
}

// holding is the time from the start of the command to its end. All of it belongs to one goroutine; keep's reads only what does not change.
//
// The proof that the command is gone before anybody else is admitted because of a lease: the library ends trust at the
// latest Margin before the server can end the lease (Config.Margin), and Margin is killAfter + slack. Trust was still there
// at lastHeld. So SIGKILL at killAt, which is at most lastHeld + 2 ticks + killAfter, comes 8 ticks or more before anybody is
// admitted. All instants are of the clock that counts suspension. Go's timers do not, so each tick judges by the clock too:
// a process that has slept over its lease kills within a tick of waking up. For a process that does not run, its guard kills (keep).
type holding struct {
	*runner
	lock  *fairlock.Lock
	child *child
	tty   *terminal
	clock clock.Clock
	tick  time.Duration

	lastHeld clock.Instant // a moment before the newest proof that the lock was held
	loss     error         // why the lock was lost, once that was noticed
	killAt   clock.Instant // set with loss
	ints     int           // SIGINTs passed on
	alone    bool          // the guard is gone, and that was told
}

// keep moves on until when the command may run at all, while the lock is trusted, and returns what ends that. It is not part of watch, which may wait for a
// standard error that nobody reads.
//
// Who is stopped moves nothing on, and the guard judges: it kills a tick after this process would have at the latest, and six before anybody is
// admitted.
func (h *holding) keep(until *deadline) (stop func()) {
	if h.action.ignore {
		return func() {} // until never
	}
	move := func(first bool) {
		now := sinceBoot() // before Left
		if left := h.lock.Left(); left > 0 || first {
			until.allow(now, left+h.grace()+4*h.tick)
		}
	}
	move(true) // before the command is there; also when the lock was lost by now, lest the deadline be never
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(h.tick)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				move(false)
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// watch returns when the command has ended.
func (h *holding) watch() syscall.WaitStatus {
	cont, stop := notify(syscall.SIGCONT)
	defer stop()
	ticker := time.NewTicker(h.tick)
	defer ticker.Stop()
	under := h.lock.Context().Done()
	var asked <-chan struct{} // stays nil where nobody wants to know, which costs a read a second
	if !h.request.ignore {
		asked = h.lock.Requested()
	}
	for {
		select {
		case ev := <-h.child.events:
			if !ev.Stopped() {
				h.judge() // a loss just before the end is a loss
				return ev
			}
			h.stopped(ev.StopSignal(), cont)
		case sig := <-h.signals:
			h.forward(sig.(syscall.Signal))
		case <-cont:
			h.resume()
		case <-under:
			under = nil // it stays closed
			h.judge()
		case <-asked:
			asked = nil // likewise
			h.requested()
		case <-ticker.C:
			h.judge()
			h.killIfDue()
			if h.loss == nil && !h.alone && h.child.guard.reaped.Load() {
				h.alone = true
				h.warn("the command's guard was killed: should fairlock be stopped or killed too, the command can run on beside another holder's")
			}
		}
	}
}

// judge notes that the lock is held, or ends the command because it is not.
func (h *holding) judge() {
	if h.loss != nil {
		return
	}
	now := h.clock.Now()
	if h.loss = h.lock.Err(); h.loss == nil {
		h.lastHeld = now
		return
	}
	if h.action.ignore {
		h.warn("%v; the command goes on, others may hold the lock beside it (--on-lost=ignore)", h.loss)
		return
	}
	// The loss came after lastHeld. What was noticed late, because this process was stopped or the machine slept, is
	// taken off the command's time.
	h.killAt = min(now, h.lastHeld.Add(2*h.tick)).Add(h.killAfter)
	sig := h.action.sig
	if sig == syscall.SIGKILL || now >= h.killAt {
		h.killAt = now
		h.warn("%v; killing the command", h.loss)
		h.killIfDue()
		return
	}
	h.warn("%v; ending the command with %s, and SIGKILL in %v", h.loss, unix.SignalName(sig), h.killAt.Sub(now).Round(time.Millisecond))
	h.child.signal(sig)
	h.child.signal(syscall.SIGCONT) // a stopped process acts on it only when it goes on
}

// requested tells the command that somebody wants the lock. When it gives way is its own affair.
func (h *holding) requested() {
	if h.loss != nil && !h.action.ignore {
		return // it was told to end
	}
	h.log.Info("somebody asks for the lock", "lock", h.name, "signal", unix.SignalName(h.request.sig))
	h.child.signal(h.request.sig)
	h.child.signal(syscall.SIGCONT) // as after a loss
}

// killIfDue sends SIGKILL once the command's time is over, and again at each tick until it has ended: a process that was
// being forked at the first may have been missed.
func (h *holding) killIfDue() {
	if h.loss != nil && !h.action.ignore && h.clock.Now() >= h.killAt {
		h.child.kill()
	}
}

// forward passes a signal on.
func (h *holding) forward(sig syscall.Signal) {
	if sig == syscall.SIGINT {
		if h.ints++; h.ints > 1 {
			sig = syscall.SIGKILL
		}
	}
	h.log.Info("signal passed on", "signal", sig.String())
	h.child.signal(sig)
}

// goneLimit bounds the wait for processes that SIGKILL has not ended: those in the midst of a disk or network operation.
const goneLimit = 10 * time.Second

// awaitGone returns when all that an ended command has started has ended too. It has the same time to stop as the command
// itself.
func (h *holding) awaitGone() {
	ticker := time.NewTicker(min(h.tick, 20*time.Millisecond))
	defer ticker.Stop()
	for !h.child.gone() {
		if h.clock.Now() >= h.killAt.Add(goneLimit) {
			h.warn("processes of the command are still there after SIGKILL (process group %d)", h.child.group)
			return
		}
		select {
		case <-ticker.C:
			h.killIfDue()
		case sig := <-h.signals:
			h.forward(sig.(syscall.Signal))
		}
	}
}

// stopped takes in that the command was stopped by sig.
func (h *holding) stopped(sig syscall.Signal, cont <-chan os.Signal) {
	h.log.Info("command stopped", "signal", sig.String())
	switch {
	case h.loss != nil && !h.action.ignore:
		h.child.signal(syscall.SIGCONT) // to act on the signal that it got
	case !h.tty.open():
		// Somebody's will. The lock stays held.
	case (sig == syscall.SIGTTIN || sig == syscall.SIGTTOU) && h.tty.give(h.child.group):
		h.child.signal(syscall.SIGCONT) // it wanted the terminal and has it now
	default:
		h.suspend(cont)
	}
}

// suspend does what Ctrl-Z means to the shell: fairlock's own job stops too, and with it the renewal of the lease. So nothing
// of the command may run on: SIGSTOP also stops what the terminal's signal did not.
func (h *holding) suspend(cont <-chan os.Signal) {
	h.child.signal(syscall.SIGSTOP)
	h.tty.takeBack(h.child.group, false)
	for len(cont) > 0 {
		<-cont
	}
	_ = syscall.Kill(0, syscall.SIGTSTP)
	// The signal stops this process at once or, when no shell is there to continue it, never (an orphaned process group).
	// After that, either SIGCONT has come or the timer, which runs on meanwhile, is over.
	select {
	case <-cont:
	case <-time.After(100 * time.Millisecond):
	}
	h.resume()
}

// resume lets the command go on, unless the lock was lost meanwhile. In that case judge ends it, without its time if the
// lease is over.
func (h *holding) resume() {
	h.judge()
	h.killIfDue()
	if h.loss != nil && !h.action.ignore {
		return
	}
	if h.tty.shared() {
		h.tty.give(h.child.group)
	}
	h.child.signal(syscall.SIGCONT)
}
