package replset

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	// maxMongod bounds what is unpacked: builds of 2022 to 2026 have 140 to 230 MB.
	maxMongod = 1 << 30

	lockPoll = 50 * time.Millisecond
)

// install puts a mongod into the cache under name. fetch writes it to the path it
// is given, in a folder that it may use as scratch space.
//
// I1: the final name appears only by rename, after the file was synced and has
// run, so no process ever finds half a mongod under it.
//
// I2: all of it happens under a lock file of that name. The lock belongs to the
// open file, not to the process, so it also excludes goroutines, and the kernel
// drops it when the process dies. The lock file itself is never removed: a remover
// and a newcomer would otherwise hold "the" lock on two different files.
func (f *finder) install(ctx context.Context, name string, fetch func(ctx context.Context, dst string) error) (Binary, error) {
	root, err := f.cacheRoot()
	if err != nil {
		return Binary{}, err
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return Binary{}, err
	}
	unlock, err := lockFile(ctx, filepath.Join(root, "."+name+".lock"))
	if err != nil {
		return Binary{}, err
	}
	defer unlock()

	final := filepath.Join(root, name, "mongod")
	if b, err := probe(ctx, final); err == nil {
		return b, nil // somebody installed it while we waited for the lock
	}

	// Every scratch folder of this name is from a dead process: a live one would
	// hold the lock.
	prefix := ".tmp-" + name + "-"
	stale, _ := filepath.Glob(filepath.Join(root, prefix+"*"))
	for _, dir := range stale {
		_ = os.RemoveAll(dir) // only costs space
	}
	scratch, err := os.MkdirTemp(root, prefix)
	if err != nil {
		return Binary{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()

	fresh := filepath.Join(scratch, "mongod")
	if err := fetch(ctx, fresh); err != nil {
		return Binary{}, err
	}
	if _, err := probe(ctx, fresh); err != nil {
		return Binary{}, fmt.Errorf("fetched, but does not run here: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return Binary{}, err
	}
	if err := os.Rename(fresh, final); err != nil {
		return Binary{}, err
	}
	syncDir(filepath.Dir(final))
	return probe(ctx, final)
}

// writeMongod writes an executable to dst and returns after it is on disk.
func writeMongod(dst string, src io.Reader) (err error) {
	file, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := file.Close(); err == nil {
			err = cerr
		}
	}()
	if err := copyBounded(file, src, maxMongod); err != nil {
		return err
	}
	return file.Sync()
}

// copyBounded refuses, rather than cuts, what is longer than limit.
func copyBounded(dst io.Writer, src io.Reader, limit int64) error {
	n, err := io.Copy(dst, io.LimitReader(src, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("more than %d MB", limit>>20)
	}
	return err
}

// syncDir makes a rename in dir survive a power cut. Its failure is ignored: the
// cost of a lost rename is one more download.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// lockFile takes an exclusive lock on path, created if need be. It asks again
// and again, because a blocking flock cannot be cancelled by ctx.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		held, err := tryFlock(file)
		if held {
			return func() { _ = file.Close() }, nil // closing unlocks
		}
		if err != nil {
			_ = file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("waiting for another install, lock %s: %w", path, context.Cause(ctx))
		}
	}
}
