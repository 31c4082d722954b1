//go:build !linux

package clock

import "time"

// System is the portable clock.
var System Clock = NewPortable(time.Now)
