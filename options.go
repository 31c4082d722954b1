package fairlock

import (
	"context"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock/queue"
)

// Option adjusts one call that takes a lock.
type Option func(*options) error

type options struct {
	label   string
	named   bool            // label was given, and may be empty
	maxWait time.Duration   // 0: no limit but the caller's context
	maxHold time.Duration   // 0: no limit
	inLine  func()          // nil: nobody asks
	parent  context.Context // of the call, for its values
	ask     demand
}

// Label names this acquisition for people, in [Manager.Inspect] and on the command line. At most 255 bytes of
// valid UTF-8. It is stored as it is, whatever it contains.
func Label(label string) Option {
	return func(o *options) error {
		o.label, o.named = label, true
		return checkLabel(label)
	}
}

// MaxWait bounds the wait: when it passes, the call returns [ErrWaitLimit] and the place in line is given up. It
// must be positive. The caller's context still ends the wait when it ends first.
func MaxWait(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return invalidOption("MaxWait", d, "must be positive")
		}
		o.maxWait = d
		return nil
	}
}

// MaxHold bounds the hold, whether or not the lease is renewed: d after the grant the lock counts as lost, its
// context ends with [LostMaxHold], and Config.Margin (and Config.LockDelay) later the next in line is admitted. [Lock.Extend] moves that
// end. It must be positive.
func MaxHold(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return invalidOption("MaxHold", d, "must be positive")
		}
		o.maxHold = d
		return nil
	}
}

// InLine calls f once the call has its place among the calls of this manager: whatever is asked of the same manager for the same lock after f was
// called stands behind it. It is for those who start calls in goroutines of their own and promise their users an order; between
// processes the order is that of the database, which f does not wait for. f is called at most once for each lock, by the goroutine of the call, and not when the call
// is refused before. It must not block. If it panics the call does, and
// its place is given up.
func InLine(f func()) Option {
	return func(o *options) error {
		if f == nil {
			return invalidOption("InLine", "nil", "must be a function")
		}
		o.inLine = f
		return nil
	}
}

// ValidateName reports whether a lock can have that name: 1 to 255 bytes of valid UTF-8 without control
// characters. Names are compared byte by byte; no form of normalisation is applied. The error matches
// [ErrInvalidName] and says which rule was broken.
func ValidateName(name string) error { return queue.ValidateName(name) }

func checkLabel(label string) error {
	switch {
	case len(label) > 255:
		return invalidOption("Label", quoted(label), "must be at most 255 bytes, has "+strconv.Itoa(len(label)))
	case !utf8.ValidString(label):
		return invalidOption("Label", quoted(label), "must be valid UTF-8")
	}
	return nil
}

// quoted is a value for an error message: escaped, and cut so that bad input cannot fill a log.
func quoted(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
