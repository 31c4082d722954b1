package fairlock

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzLabel: a label that is accepted is short text; the error of one that is not is short text too, and so can be logged.
func FuzzLabel(f *testing.F) {
	for _, s := range []string{"", "x", "$x", "\x00", "\xff", "é", "\x1b[2J"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, label string) {
		var o options
		if err := Label(label)(&o); err != nil {
			require.ErrorIs(t, err, ErrInvalidOption)
			require.True(t, utf8.ValidString(err.Error()))
			require.Less(t, len(err.Error()), 1024)
			return
		}
		require.Equal(t, label, o.label)
		require.True(t, utf8.ValidString(label) && len(label) <= 255)
	})
}
