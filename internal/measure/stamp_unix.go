//go:build linux || darwin

package measure

import "golang.org/x/sys/unix"

// Stamp is nanoseconds of CLOCK_MONOTONIC, which is one clock for all processes of a machine (clock_gettime(2)).
func Stamp() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("bug: clock_gettime(CLOCK_MONOTONIC): " + err.Error())
	}
	return ts.Nano()
}
