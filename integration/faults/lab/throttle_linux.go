package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// controllers is where the first version of control groups has disks.
const controllers = "/sys/fs/cgroup/blkio"

// Throttle makes writes of some processes to one disk slow. What they only cache is not held up, what they sync is.
type Throttle struct {
	group, device string
	mu            sync.Mutex // guards gone
	gone          bool
}

// NewThrottle makes a throttle for the disk on which path is. It holds nobody up until Set.
func NewThrottle(path string) (*Throttle, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return nil, err
	}
	device := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	if _, err := os.Stat("/sys/dev/block/" + device); err != nil {
		return nil, fmt.Errorf("lab: throttle: %s is on no disk: %w", path, err)
	}
	group, err := os.MkdirTemp(controllers, prefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return nil, fmt.Errorf("lab: throttle: control groups: %w", err)
	}
	return &Throttle{group: group, device: device}, nil
}

// Set is how many writes a second the processes have together from now on; 0 is any number.
func (t *Throttle) Set(perSecond int) error {
	return writeTo(t.group, "blkio.throttle.write_iops_device", t.device+" "+strconv.Itoa(perSecond))
}

// Add puts a process under the throttle.
func (t *Throttle) Add(pid int) error { return writeTo(t.group, "cgroup.procs", strconv.Itoa(pid)) }

// Close lets all processes go. It may be repeated.
func (t *Throttle) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return nil
	}
	pids, err := os.ReadFile(filepath.Join(t.group, "cgroup.procs"))
	if err != nil {
		return err
	}
	for pid := range strings.FieldsSeq(string(pids)) {
		if err := writeTo(controllers, "cgroup.procs", pid); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	if err := os.Remove(t.group); err != nil {
		return err
	}
	t.gone = true
	return nil
}

func writeTo(group, file, text string) error {
	if err := os.WriteFile(filepath.Join(group, file), []byte(text), 0o200); err != nil {
		return fmt.Errorf("lab: throttle: %w", err)
	}
	return nil
}
