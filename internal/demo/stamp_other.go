//go:build !linux && !darwin

package demo

import "time"

// stamp is the wall clock: the one clock that processes share everywhere. If it is set during a run, figures and P9 are wrong.
func stamp() int64 { return time.Now().UnixNano() }
