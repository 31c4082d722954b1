//go:build !linux && !darwin

package guard

import "syscall"

// Guard cannot be started here.
type Guard struct{}

// Start fails.
func Start() (*Guard, error) { return nil, ErrUnsupported }

// Done is never asked for.
func (*Guard) Done() <-chan struct{} { return nil }

// PID is never asked for.
func (*Guard) PID() int { return 0 }

// Attr is never asked for.
func (*Guard) Attr() *syscall.SysProcAttr { return nil }

// Release is never asked for.
func (*Guard) Release() {}
