//go:build !linux && !darwin

package replset

import "syscall"

// Never sent: no process is started here, see internal/guard.
const (
	sigStop = syscall.SIGKILL
	sigCont = syscall.SIGKILL
)

func awaitStop(*process) error { return ErrUnsupported }
