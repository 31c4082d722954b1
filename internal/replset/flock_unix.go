//go:build linux || darwin

package replset

import (
	"errors"
	"os"
	"syscall"
)

// tryFlock takes the exclusive lock of an open file, or says that it is held
// elsewhere (false, nil). The descriptor is close-on-exec, so no child inherits
// the lock beyond its exec.
func tryFlock(file *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, err
		}
	}
}
