package queue

import (
	"errors"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// MaxNameBytes is the longest lock name.
const MaxNameBytes = 255

// ErrInvalidName: a lock name breaks a rule; the message gives the name and the rule.
var ErrInvalidName = errors.New("fairlock: invalid lock name")

// ValidateName checks the rule for names of users: 1 to 255 bytes of valid UTF-8 without control characters.
// Invalid UTF-8 must never reach the server: the Go driver stores it, and other drivers then cannot read the
// collection at all. A name is only ever a value, never a field name, a path or a pattern, so nothing else is
// special in it. Names that begin with a control character are therefore free for fairlock's own locks.
func ValidateName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: %q: must not be empty", ErrInvalidName, name)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%w: %s...: must be at most %d bytes, has %d", ErrInvalidName,
			strconv.QuoteToASCII(name[:32]), MaxNameBytes, len(name))
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %s: must be valid UTF-8", ErrInvalidName, strconv.QuoteToASCII(name))
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: %s: must not contain the control character %U", ErrInvalidName, strconv.QuoteToASCII(name), r)
		}
	}
	return nil
}
