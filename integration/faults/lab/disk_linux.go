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

// prefix begins the names of what may outlive a killed process; its id follows.
const prefix = "fairlock-lab-"

// Disk is a file system of a given size, in memory.
type Disk struct {
	path string
	mu   sync.Mutex // guards gone
	gone bool
}

// NewDisk makes an empty disk.
func NewDisk(bytes int64) (*Disk, error) {
	if !Inside() {
		return nil, ErrOutside
	}
	path, err := os.MkdirTemp("", prefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return nil, err
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes)); err != nil {
		return nil, errors.Join(fmt.Errorf("lab: mount tmpfs: %w", err), os.Remove(path))
	}
	return &Disk{path: path}, nil
}

// Path is where it is mounted.
func (d *Disk) Path() string { return d.path }

func (d *Disk) ballast() string { return filepath.Join(d.path, "ballast") }

// Fill writes a file until the disk is full.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(d.ballast(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	// Large steps first, then what is left.
	for size := 1 << 20; size > 0; {
		_, err = f.Write(make([]byte, size))
		switch {
		case errors.Is(err, unix.ENOSPC):
			size /= 16
		case err != nil:
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// Drain removes what Fill wrote.
func (d *Disk) Drain() error { return os.Remove(d.ballast()) }

// Free is how many bytes can be written.
func (d *Disk) Free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.path, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// Close removes the disk. A process that still uses it keeps its memory until it ends. It may be repeated.
func (d *Disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return nil
	}
	if err := unix.Unmount(d.path, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("lab: unmount %s: %w", d.path, err)
	}
	d.gone = true
	return os.Remove(d.path)
}

// sweep removes the folders of dead processes on which disks were mounted. Their mounts are gone: they were private. Folders that
// are not empty are nobody's mount point and are left alone.
func sweep(root string) (removed int) {
	dirs, _ := filepath.Glob(filepath.Join(root, prefix+"*"))
	for _, dir := range dirs {
		if dead(strings.TrimPrefix(filepath.Base(dir), prefix)) && os.Remove(dir) == nil {
			removed++
		}
	}
	return removed
}

// dead is true for "pid-anything" if no process has that id.
func dead(name string) bool {
	pid, err := strconv.Atoi(strings.SplitN(name, "-", 2)[0])
	return err == nil && pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
