package run

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the user and system time that a process has used, all its threads together, those that have ended included. It is read from the
// process's CPU clock, which counts nanoseconds. /proc/PID/stat has the same sum in steps of 10 ms, which is more than a cheap contender
// uses in a window; /proc/PID/task/*/schedstat has nanoseconds, but forgets threads when they end.
func CPU(pid int) (time.Duration, error) {
	// As clock_getcpuclockid(3) makes it: the complement of the id, and below it 2, the clock of the scheduler, of the whole process.
	clock := ^int32(pid)<<3 | 2
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("run: CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// CPUs is CPU of each of some processes by id. One that has ended meanwhile is left out: a server may have a process for each connection.
func CPUs(pids []int) map[int]time.Duration {
	all := make(map[int]time.Duration, len(pids))
	for _, pid := range pids {
		if used, err := CPU(pid); err == nil {
			all[pid] = used
		}
	}
	return all
}

// grown is what the processes of to have used since from. One that is not in from, or had used more then, has begun since (an id can
// be used again), so that all it has used counts. What one of from had used that has ended is not known.
func grown(from, to map[int]time.Duration) (sum time.Duration) {
	for pid, used := range to {
		if before, ok := from[pid]; ok && before <= used {
			used -= before
		}
		sum += used
	}
	return sum
}
