package replset

import (
	"os"
	"path/filepath"
	"time"
)

const (
	tempPrefix = "fairlock-replset-"
	ownerLock  = "owner.lock"

	// A folder without a lock file is one that is being made, or that was
	// half-removed. After this time it is the latter.
	unlockedAge = time.Hour
)

// tempDir makes a folder that belongs to this process as long as release has not
// been called: its lock file is locked, and the kernel drops the lock when the
// process ends, however it ends.
func tempDir(root string) (dir string, release func(), err error) {
	for {
		dir, err = os.MkdirTemp(root, tempPrefix)
		if err != nil {
			return "", nil, err
		}
		lock, err := os.OpenFile(filepath.Join(dir, ownerLock), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return "", nil, err
		}
		held, err := tryFlock(lock)
		if held {
			return dir, func() { _ = lock.Close() }, nil
		}
		_ = lock.Close()
		if err != nil {
			return "", nil, err
		}
		// A sweep came between create and lock, and removes the folder. Take another.
	}
}

// sweep removes the folders of dead processes (I8): those whose lock is free.
// Whoever holds a lock removes the folder before letting go, so two sweeps do not
// meet in one folder.
func sweep(root string) (removed int) {
	dirs, _ := filepath.Glob(filepath.Join(root, tempPrefix+"*"))
	for _, dir := range dirs {
		lock, err := os.OpenFile(filepath.Join(dir, ownerLock), os.O_RDWR, 0)
		if err != nil {
			info, serr := os.Stat(dir)
			if !os.IsNotExist(err) || serr != nil || time.Since(info.ModTime()) < unlockedAge {
				continue // not ours to judge, or too young
			}
			if os.RemoveAll(dir) == nil {
				removed++
			}
			continue
		}
		if held, _ := tryFlock(lock); held && os.RemoveAll(dir) == nil {
			removed++
		}
		_ = lock.Close()
	}
	return removed
}
