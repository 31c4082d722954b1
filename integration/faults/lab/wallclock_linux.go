package lab

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// WallClock moves the wall clock of one running process that reads it through the vDSO, as Go programs do. The process is
// stopped for the moment of making; after that a change is one write of eight bytes, and the process runs on.
//
// It is exact for programs that use CLOCK_REALTIME only to ask what time it is. A program that tells the kernel to wait until
// an absolute time of that clock would be misunderstood; Go's runtime never does, the C library may.
type WallClock struct {
	mem  *os.File // the process's memory
	cell int64    // where the offset is, in seconds
}

// ErrArch: the few instructions are not known for this processor.
var ErrArch = errors.New("lab: WallClock is made for amd64 only")

const (
	entrySize = 5 // of the jump
	stopLimit = 10 * time.Second

	// A thread may stand on the instruction that is to be replaced; it is let go on and stopped again.
	stopTries = 1000
)

// NewWallClock finds the vDSO of the process and turns its clock_gettime into this, with the offset at 0:
//
//	clock_gettime(id, ts): ask the kernel by a system call; if id is CLOCK_REALTIME, add the cell to ts.tv_sec
//
// The mapping is the process's own from the first write to it, as after a debugger's breakpoint. Close the clock when done; the
// process keeps the offset.
func NewWallClock(pid int) (_ *WallClock, err error) {
	if runtime.GOARCH != "amd64" {
		return nil, ErrArch
	}
	mem, err := os.OpenFile("/proc/"+strconv.Itoa(pid)+"/mem", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("lab: wall clock: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("lab: wall clock of %d: %w", pid, err), mem.Close())
		}
	}()
	base, image, err := readVDSO(pid, mem)
	if err != nil {
		return nil, err
	}
	entry, err := clockEntry(image)
	if err != nil {
		return nil, err
	}
	// The image is rounded up to whole pages, so its end is unused: the cell first, aligned, then the code.
	cell := (len(bytes.TrimRight(image, "\x00")) + 63) &^ 63
	code := cell + 8
	stub := stubFor(cell, code)
	if code+len(stub) > len(image) {
		return nil, errors.New("no room behind the vDSO")
	}
	if _, err := mem.WriteAt(append(make([]byte, 8), stub...), base+int64(cell)); err != nil {
		return nil, err
	}
	jump := append([]byte{0xe9}, binary.LittleEndian.AppendUint32(nil, uint32(code-entry-entrySize))...)
	at := base + int64(entry)
	err = whileStopped(pid, uint64(at)+1, uint64(at)+entrySize, func() error {
		_, err := mem.WriteAt(jump, at)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &WallClock{mem: mem, cell: base + int64(cell)}, nil
}

// Set moves the clock to offset from the true time, in whole seconds.
func (c *WallClock) Set(offset time.Duration) error {
	if offset%time.Second != 0 {
		return fmt.Errorf("lab: wall clock: offset %v is not in whole seconds", offset)
	}
	// Aligned, so no reader sees half of it.
	_, err := c.mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(offset/time.Second)), c.cell)
	return err
}

// Close lets go of the process.
func (c *WallClock) Close() error { return c.mem.Close() }

// stubFor is the code for amd64. It uses only registers that a C function may overwrite, and no stack.
func stubFor(cell, code int) []byte {
	stub := []byte{
		0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228 (clock_gettime)
		0x0f, 0x05, // syscall; edi and rsi stay
		0x85, 0xff, // test edi, edi (CLOCK_REALTIME is 0)
		0x75, 0x0a, // jne +10, to ret
		0x4c, 0x8b, 0x05, 0, 0, 0, 0, // mov r8, [rip+cell]
		0x4c, 0x01, 0x06, // add [rsi], r8
		0xc3, // ret
	}
	const after = 18 // the end of the mov
	binary.LittleEndian.PutUint32(stub[after-4:], uint32(cell-code-after))
	return stub
}

// readVDSO returns where the vDSO is and what is in it.
func readVDSO(pid int, mem *os.File) (base int64, image []byte, err error) {
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return 0, nil, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		var end int64
		if _, err := fmt.Sscanf(line, "%x-%x", &base, &end); err != nil {
			return 0, nil, err
		}
		image = make([]byte, end-base)
		_, err := mem.ReadAt(image, base)
		return base, image, err
	}
	return 0, nil, errors.New("no vDSO in its memory")
}

// clockEntry is where clock_gettime begins in the image.
func clockEntry(image []byte) (int, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Size >= entrySize {
			return int(s.Value), nil
		}
	}
	return 0, errors.New("the vDSO has no __vdso_clock_gettime")
}

// whileStopped runs f while the process is stopped and none of its threads stands in [lo, hi).
func whileStopped(pid int, lo, hi uint64, f func() error) error {
	for range stopTries {
		free, err := stopped(pid, lo, hi, f)
		if err != nil || free {
			return err
		}
	}
	return errors.New("a thread always stands where the code is to be changed")
}

func stopped(pid int, lo, hi uint64, f func() error) (free bool, err error) {
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, unix.Kill(pid, unix.SIGCONT)) }()
	if err := awaitStopped(pid); err != nil {
		return false, err
	}
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/syscall")
	if err != nil {
		return false, err
	}
	for _, t := range threads {
		// "number arguments... sp pc", or "-1 sp pc" for a thread that is in no system call.
		text, err := os.ReadFile(t)
		if err != nil {
			return false, err
		}
		fields := strings.Fields(string(text))
		if len(fields) < 3 {
			return false, nil // "running": not stopped yet
		}
		pc, err := strconv.ParseUint(fields[len(fields)-1], 0, 64)
		if err != nil {
			return false, err
		}
		if pc >= lo && pc < hi {
			return false, nil
		}
	}
	return true, f()
}

// awaitStopped returns when all threads have stopped. The process need not be a child, so nobody tells.
func awaitStopped(pid int) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	for {
		running, err := runningThreads(pid)
		if err != nil || running == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return fmt.Errorf("%d threads did not stop", running)
		}
	}
}

func runningThreads(pid int) (n int, err error) {
	stats, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	if err != nil {
		return 0, err
	}
	if len(stats) == 0 {
		return 0, os.ErrProcessDone
	}
	for _, s := range stats {
		text, err := os.ReadFile(s)
		if errors.Is(err, os.ErrNotExist) {
			continue // a thread that has ended
		}
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		switch {
		case strings.HasPrefix(rest, "T"):
		case strings.HasPrefix(rest, "Z"), strings.HasPrefix(rest, "X"):
			return 0, os.ErrProcessDone
		default:
			n++
		}
	}
	return n, nil
}
