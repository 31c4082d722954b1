package fairlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/queue"
)

// Errors of taking a lock. Nothing is held after any of them, and nothing stays in the database:
// a number that was already taken is settled in the background.
var (
	// ErrBusy: TryLock found the lock held, or somebody waiting for it.
	ErrBusy = errors.New("fairlock: busy")
	// ErrWaitLimit: the limit set by [MaxWait] passed before the lock was granted. It is distinct from the
	// error of the caller's own context, which is returned as that context's error.
	ErrWaitLimit = errors.New("fairlock: wait limit reached")
	// ErrMismatch: the lock exists with another kind or other permits; the message names both.
	ErrMismatch = queue.ErrMismatch
	// ErrMalformed: the lock's document was written by somebody else and is none of fairlock's; the message says what is wrong.
	ErrMalformed = queue.ErrMalformed
	// ErrPrivilege: the database's user lacks a privilege; the message names it. Such errors are of type [*queue.PrivilegeError].
	ErrPrivilege = queue.ErrPrivilege
	// ErrTooBig: more units are asked for than the semaphore has permits. Such errors are of type [*queue.TooBigError].
	ErrTooBig = queue.ErrTooBig
	// ErrTooManyWaiters: the limit of Config.MaxWaiters or Config.MaxCalls; the message names it. No number was taken. Such errors are
	// of type [*queue.TooManyWaitersError].
	ErrTooManyWaiters = queue.ErrTooManyWaiters
	// ErrInvalidName: see [ValidateName].
	ErrInvalidName = queue.ErrInvalidName
	// ErrInvalidOption: a value in [Config] or in an option breaks its rule; the message names value and rule.
	ErrInvalidOption = errors.New("fairlock: invalid option")
	// ErrClosed: the manager was closed, before or during the call.
	ErrClosed = errors.New("fairlock: manager closed")
	// ErrReentrant: the context is that of the very lock that is asked for, so the call would wait for itself. It is not
	// noticed when the context is another one.
	ErrReentrant = errors.New("fairlock: lock is held by the caller")
	// ErrUpgrade: the context is that of a read lock, and the same lock is asked for to write.
	ErrUpgrade = errors.New("fairlock: a read lock cannot be made a write lock")
	// ErrServer: the deployment cannot carry fairlock (too old, or not reachable); the message says why.
	ErrServer = errors.New("fairlock: server not suitable")
)

// Errors of a lock that is or was held.
var (
	// ErrLost: the lock is no longer ours, and was lost before it was given back. Errors that match it are of
	// type [*LostError] and say why.
	ErrLost = errors.New("fairlock: lock lost")
	// ErrUnlocked: the cause of a lock's context after a clean Unlock.
	ErrUnlocked = errors.New("fairlock: unlocked")
	// ErrNoMaxHold: Extend was called for a lock that was taken without [MaxHold].
	ErrNoMaxHold = errors.New("fairlock: lock has no maximum hold to extend")
)

// ErrNotHeld: the lock, or the grant with that token, is not held as far as the database shows; the message says what is known.
var ErrNotHeld = errors.New("fairlock: not held")

// LossReason says why a lock was lost.
type LossReason uint8

const (
	_ LossReason = iota
	// LostLease: no renewal of the session was acknowledged in time, by the holder's own clock.
	LostLease
	// LostSession: the session was ended by another process, or its document is gone.
	LostSession
	// LostTicket: the ticket was not acknowledged within its grace, or a tombstone stood in its place.
	LostTicket
	// LostSettled: the database shows the lock's number as settled by somebody else, or its lock document as gone.
	LostSettled
	// LostMaxHold: the time set by [MaxHold] passed.
	LostMaxHold
	// LostClosed: the manager was closed while the lock was held.
	LostClosed
	// LostOther: another lock of the same [Set] was lost.
	LostOther
	// LostForced: somebody unlocked it with [Manager.ForceUnlock].
	LostForced
)

// String returns the reason in words.
func (r LossReason) String() string {
	switch r {
	case LostLease:
		return "lease not renewed in time"
	case LostSession:
		return "session ended by another process"
	case LostTicket:
		return "ticket not acknowledged in time"
	case LostSettled:
		return "number settled by another process"
	case LostMaxHold:
		return "maximum hold reached"
	case LostClosed:
		return "manager closed"
	case LostOther:
		return "another lock of the set was lost"
	case LostForced:
		return "unlocked by force"
	}
	return "unknown reason"
}

// LostError says which lock was lost and why. It matches [ErrLost] (and [ErrClosed] for [LostClosed]).
type LostError struct {
	Name   string
	Token  int64
	Reason LossReason
}

func (e *LostError) Error() string {
	return fmt.Sprintf("fairlock: lock %q (token %d) lost: %s", e.Name, e.Token, e.Reason)
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool {
	return target == ErrLost || target == ErrClosed && e.Reason == LostClosed
}

func invalidOption(option string, value any, rule string) error {
	return fmt.Errorf("%w: %s is %v: %s", ErrInvalidOption, option, value, rule)
}

// waitError is returned when a caller's context ends or its wait limit passes: cause is the context's error or
// ErrWaitLimit, last the newest failure of a database call on the lock's behalf, if any. Both match errors.Is.
type waitError struct {
	name   string
	waited time.Duration
	cause  error
	last   error
}

func (e *waitError) Error() string {
	s := fmt.Sprintf("fairlock: lock %q not obtained after %v: %v", e.name, e.waited.Round(time.Millisecond), e.cause)
	if e.last != nil {
		s += fmt.Sprintf(" (last failure: %v)", e.last)
	}
	return s
}

func (e *waitError) Unwrap() []error {
	if e.last == nil {
		return []error{e.cause}
	}
	return []error{e.cause, e.last}
}
