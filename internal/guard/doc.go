// Package guard ends servers with the process that started them, in whatever way that ends, SIGKILL included, and also when
// the servers are stopped at that moment. It serves internal/replset and the benchmarks of other locks.
//
// A guard is one shell, which leads a process group and does nothing but read a pipe whose only write end is here; guard_unix.go has
// the proof. Each guard has one goroutine, which waits for the shell and ends with it.
package guard

import "errors"

// ErrUnsupported: this operating system lacks what a guard rests on.
var ErrUnsupported = errors.New("guard: needs Linux or macOS")
