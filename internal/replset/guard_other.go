//go:build !linux && !darwin

package replset

import "syscall"

type guard struct{ done chan struct{} }

func startGuard() (*guard, error) { return nil, ErrUnsupported }

func (*guard) attr() *syscall.SysProcAttr { return nil }
func (*guard) release()                   {}
