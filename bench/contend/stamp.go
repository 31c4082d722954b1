package contend

import "golang.org/x/sys/unix"

// Stamp is now in nanoseconds of CLOCK_MONOTONIC, which all processes of the machine share. Go's own monotonic clock begins anew in each
// process.
func Stamp() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("bug: clock_gettime(CLOCK_MONOTONIC): " + err.Error())
	}
	return ts.Nano()
}
