package clock

import (
	"syscall"
	"unsafe"
)

// System is CLOCK_BOOTTIME: monotonic, and running while the machine is suspended (clock_gettime(2)).
var System Clock = bootTime{}

type bootTime struct{}

func (bootTime) Now() Instant {
	const clockBootTime = 7
	var ts syscall.Timespec
	// The call cannot fail: the clock exists since Linux 2.6.39, which is older than any kernel Go runs on.
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBootTime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic("bug: clock_gettime(CLOCK_BOOTTIME): " + errno.Error())
	}
	return Instant(ts.Nano())
}
