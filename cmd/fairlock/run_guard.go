//go:build linux || darwin || freebsd

package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guard is a second fairlock, which leads the command's process group. It kills the command and what it has started when
// fairlock has died, of SIGKILL even, and when fairlock does not run (it was stopped, a debugger has it, its disk hangs) and the command's time is over: in both
// cases nobody renews the lease, and nobody else would end the command. Proof:
//
//   - The write end of its pipe exists in fairlock alone: it is close-on-exec, and fairlock forks nothing after the
//     command, which is in the group before its exec. So end-of-file comes when fairlock has ended, and
//     fairlock cannot end without the kernel closing the pipe.
//   - The deadline stands in a page of memory that both have, by a clock that both have. fairlock moves it on while the lock is trusted (allow), with a
//     value that was true before it could be stopped. A pipe would not do: one that is full keeps the old and not the new.
//   - "kill 0" names the group by membership, and SIGKILL ends stopped processes as well. A stopped guard goes on when fairlock dies: a group
//     with stopped processes that is orphaned by fairlock's death gets SIGHUP, which it ignores, and SIGCONT. It is not orphaned if what adopts it is
//     of the same session (a shell that is a container's first process); so on Linux the guard has a SIGCONT of its own as parent-death signal. It is
//     stopped with the command only: SIGSTOP goes to the whole group.
//   - When the time is over it leaves the group, which then can be killed without it, and again: what forks faster than it can be listed ends with its group
//     alone, and a process that was forked or adopted while the list was read is the next look's.
//   - What has left the group descends from fairlock, and is found there while fairlock is there (Linux).
type guard struct {
	cmd    *exec.Cmd
	pid    int
	hold   *os.File // the write end
	until  *deadline
	reaped atomic.Bool // it was killed, and its number may have become another's
}

// readyLimit bounds the wait for a guard to be ready: signals wait meanwhile.
const readyLimit = 10 * time.Second

// startGuard returns when the guard is ready. The guard looks at the deadline every four ticks at least, and when it is over kills at each.
func startGuard(tick time.Duration) (*guard, error) {
	path, err := self()
	if err != nil {
		return nil, err
	}
	until, memory, err := newDeadline()
	if err != nil {
		return nil, err
	}
	defer func() { _ = memory.Close() }()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	ready, readyW, err := os.Pipe()
	if err != nil {
		_ = w.Close()
		return nil, err
	}
	defer func() { _ = ready.Close() }()
	// Neither a folder nor standard output nor error is kept in use by it, and the environment, which may have secrets, is not its business.
	cmd := &exec.Cmd{
		Path: path, Args: []string{"fairlock", guardWord, strconv.Itoa(os.Getpid()), tick.String()},
		Dir: "/", Env: []string{}, Stdin: r, Stdout: readyW, ExtraFiles: []*os.File{memory},
		SysProcAttr: guardAttr(),
	}
	err = cmd.Start()
	_ = readyW.Close()
	if err != nil {
		_ = w.Close()
		return nil, err
	}
	g := &guard{cmd: cmd, pid: cmd.Process.Pid, hold: w, until: until}
	// A signal to the group before it ignores them would end it.
	err = ready.SetReadDeadline(time.Now().Add(readyLimit))
	if err == nil {
		_, err = ready.Read(make([]byte, 1))
	}
	if err != nil {
		g.end()
		return nil, fmt.Errorf("it does not become ready: %w", err)
	}
	return g, nil
}

// end ends the guard and leaves its group alone. It may be repeated. The pipe must not be closed before the guard is dead.
func (g *guard) end() {
	if g.hold == nil {
		return
	}
	if !g.reaped.Load() {
		_ = syscall.Kill(g.pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(g.pid, nil, 0, nil)
	}
	_ = g.hold.Close()
	_ = g.cmd.Process.Release()
	g.hold = nil
}

// beGuard is the life of a guard. It returns only when it was not started by startGuard.
func beGuard(args []string) int {
	// All, since --on-lost can send any to the group. Whoever wants to end a guard has SIGKILL.
	signal.Ignore()
	until, err := inheritDeadline()
	if err != nil || len(args) != 2 {
		return exitUsage
	}
	parent, err := strconv.Atoi(args[0])
	if err != nil {
		return exitUsage
	}
	tick, err := time.ParseDuration(args[1])
	if err != nil {
		return exitUsage
	}
	others := childrenOf(parent) // and this process
	_, err = os.Stdout.Write([]byte{'\n'})
	_ = os.Stdout.Close()
	died := make(chan struct{})
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(died)
	}()
	for err == nil {
		left := until.left()
		if left <= 0 {
			break
		}
		select {
		case <-died:
			err = io.EOF
		case <-time.After(min(left, 4*tick)): // by a clock that stands still while the machine sleeps
		}
	}
	if err == nil {
		err = killOverdue(parent, others, tick, died)
	}
	if err != nil {
		_ = syscall.Kill(-os.Getpid(), syscall.SIGKILL)
	}
	return exitInternal
}

// killOverdue kills the command at each tick until fairlock has died, or goes on and ends the guard.
func killOverdue(parent int, others []int, tick time.Duration, died <-chan struct{}) error {
	group, err := syscall.Getpgid(parent)
	if err == nil {
		err = syscall.Setpgid(0, group)
	}
	for err == nil {
		_ = syscall.Kill(-os.Getpid(), syscall.SIGKILL)
		if os.Getppid() == parent {
			killOffspring(parent, others)
		}
		select {
		case <-died:
			err = io.EOF
		case <-time.After(tick):
		}
	}
	return err
}

// deadline is a moment that two processes know: nanoseconds of bootClock.
type deadline struct{ at *atomic.Int64 }

// never is the deadline of who may run for ever.
const never = math.MaxInt64

// newDeadline returns a deadline of never, and the memory that it is in, for another process.
func newDeadline() (*deadline, *os.File, error) {
	memory, err := newMemory()
	if err != nil {
		return nil, nil, err
	}
	err = memory.Truncate(int64(os.Getpagesize()))
	var d *deadline
	if err == nil {
		d, err = mapDeadline(memory)
	}
	if err != nil {
		_ = memory.Close()
		return nil, nil, err
	}
	d.at.Store(never)
	return d, memory, nil
}

// inheritDeadline finds what startGuard has passed on.
func inheritDeadline() (*deadline, error) { return mapDeadline(os.NewFile(3, "deadline")) }

// mapDeadline maps a page, which stays until the process ends.
func mapDeadline(memory *os.File) (*deadline, error) {
	page, err := unix.Mmap(int(memory.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &deadline{(*atomic.Int64)(unsafe.Pointer(unsafe.SliceData(page)))}, nil
}

// allow sets the deadline to a time after a moment, which was read from sinceBoot before the reason for that time was: what happens
// in between, such as a stop of the process, is then in it.
func (d *deadline) allow(from, after time.Duration) { d.at.Store(int64(from + after)) }

// left is the time until the deadline.
func (d *deadline) left() time.Duration { return time.Duration(d.at.Load()) - sinceBoot() }

// sinceBoot reads bootClock. The instants of internal/clock are of one process.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	// It cannot fail: the clock exists in every kernel that Go runs on.
	if err := unix.ClockGettime(bootClock, &ts); err != nil {
		panic("bug: clock_gettime: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
