//go:build !linux && !darwin

package replset

import "os"

func tryFlock(*os.File) (bool, error) { return false, ErrUnsupported }
