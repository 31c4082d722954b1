package fairlock

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/queue"
)

// Observer is told what a [Manager] does, for metrics and traces. It is the one way in; adapters for Prometheus and OpenTelemetry are in the
// modules under metrics/. Each function may be nil, and is then not called. What is only to be counted is in [Manager.Stats]; an Observer is for
// durations, reasons and contexts.
//
// No function is called under a mutex of fairlock's, and none can stop it from working:
//
//   - Acquiring, Acquired, and Ended of a lock that was given back by Unlock, or was lost before Acquired had returned, are called by the goroutine
//     of the call that they are about ([Set.Unlock] has one for each lock), at the same time for different calls. One that takes long delays that call
//     and no other: Acquiring before it has a place in line, Acquired while it holds the lock already, Ended after the lock was handed on.
//   - All others, and Ended of other locks, come from one goroutine of the manager's, in the order in which things happened. While it is
//     busy up to 1024 of them are kept, and what comes then is not told: [Stats].Unobserved counts it. Nothing waits for it but Close, and that
//     as long as its context allows.
//   - One that panics is logged, and what it was told is lost to it. The lock goes on.
//
// They must not call methods of the manager or its locks that make a database call; Stats makes none.
type Observer struct {
	// Made is called once, before [New] returns.
	Made func(m *Manager)

	// Closed is called once, at the end of Close: Stats does not change any more. Calls that Close has ended can still be about to tell so.
	Closed func(m *Manager)

	// Acquiring is called when a call begins to take a lock whose name and options are valid. It returns ctx or a context made of it, which is
	// given to Acquired. The call itself does not wait under it. [Manager.LockAll] is one call for each name.
	Acquiring func(ctx context.Context, a Acquiring) context.Context

	// Acquired is called when that call has got the lock or failed, and follows each Acquiring. Of a granted lock it returns ctx or a context
	// made of it, of which the lock's own is made ([Lock.Context], and that of [Manager.Do]), and which is given to Ended. Of others what it returns is not used.
	Acquired func(ctx context.Context, a Acquired) context.Context

	// Ended is called once for each granted lock, when it was unlocked, lost or undone.
	Ended func(ctx context.Context, e Ended)

	// Renewed is called for each attempt to renew the lease.
	Renewed func(r Renewed)

	// StreamOpened is called when a change stream was opened, and took is how long that took.
	StreamOpened func(took time.Duration)

	// StreamFailed is called when a stream ended, or could not be opened, for another reason than that nobody needs it.
	StreamFailed func(f StreamFailed)

	// Reaped is called when this process has cleared something that a dead one left.
	Reaped func(r Reaped)
}

// Acquiring is a call that takes a lock.
type Acquiring struct {
	Name  string
	Kind  string // mutex, semaphore, read or write
	Units int64  // of a semaphore; 1 of others
	Try   bool   // it does not wait
}

// Acquired is how such a call ended.
type Acquired struct {
	Acquiring
	Waited time.Duration // from Acquiring to now
	Err    error         // what the call returns; nil: granted
	Token  int64         // of a granted lock; see [Lock.Token]
	// Ahead is how many units others had to give back first, when a granted lock took its place in line. 0: none, it was free. Of a mutex those are
	// who held and who waited. A writer counts 1024.
	Ahead int64
}

// Outcome is what became of the call, in one word: granted, busy ([ErrBusy]), refused ([ErrTooManyWaiters]), timeout ([ErrWaitLimit], or the
// deadline of its context), cancelled, closed ([ErrClosed]), or error.
func (a Acquired) Outcome() string {
	// A call whose own time was over says so by a waitError. Others can have a deadline in them too: that of a database call.
	var gaveUp *waitError
	switch {
	case a.Err == nil:
		return "granted"
	case errors.As(a.Err, &gaveUp) && errors.Is(gaveUp.cause, context.Canceled):
		return "cancelled"
	case gaveUp != nil:
		return "timeout"
	case errors.Is(a.Err, ErrBusy):
		return "busy"
	case errors.Is(a.Err, ErrTooManyWaiters):
		return "refused"
	case errors.Is(a.Err, ErrClosed):
		return "closed"
	}
	return "error"
}

// Outcomes are all that [Acquired.Outcome] can be.
func Outcomes() []string {
	return []string{"granted", "busy", "refused", "timeout", "cancelled", "closed", "error"}
}

// Ended is the end of a granted lock.
type Ended struct {
	Acquired
	Held time.Duration // from the grant to Unlock or to the loss
	// Handed is how long Unlock took, with the write that admits the next; close to 0 where the next was in this process. 0 of a lock that was lost before,
	// or undone.
	Handed time.Duration
	// Undone: LockAll could not have all, and gave back what it had. Nobody called Unlock, or waits for what becomes of it.
	Undone bool
	// Err is what Unlock returned, or the [*LostError]. It takes the place of that of Acquired, which was nil.
	Err error
}

// Reason is why it ended, in one word: unlocked, undone, or one of [LossReasons].
func (e Ended) Reason() string {
	if e.Undone {
		return "undone"
	}
	var lost *LostError
	if errors.As(e.Err, &lost) {
		return lost.Reason.word()
	}
	return "unlocked"
}

// word is the reason as a label.
func (r LossReason) word() string {
	if words := LossReasons(); r >= 1 && int(r) <= len(words) {
		return words[r-1]
	}
	return "unknown"
}

// LossReasons are the words for all losses, in the order of the constants from [LostLease] on.
func LossReasons() []string {
	return []string{"lease", "session", "ticket", "settled", "max_hold", "closed", "other", "forced"}
}

// Renewed is one attempt to renew the lease.
type Renewed struct {
	Took time.Duration
	Err  error // nil: renewed
}

// StreamFailed is the end of a change stream.
type StreamFailed struct {
	Reason string // privilege, pool (it would take the last connection), timeout, or error
	Err    error
}

// Reaped is what was cleared.
type Reaped struct {
	Kind    string // session, ticket or number
	N       int64
	Lock    string // of tickets and numbers
	Session string // of a session
}

// kind is the word for what is asked for.
func (d demand) kind() string {
	switch d {
	case reader:
		return "read"
	case writer:
		return "write"
	}
	return string(d.shape.Kind)
}

// told is how many units an observer is told of: that a writer takes all units of a read/write lock is fairlock's own matter.
func (d demand) told() int64 {
	if d.shape.Kind == queue.KindSemaphore {
		return d.units
	}
	return 1
}
