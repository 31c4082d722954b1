//go:build !linux

package lab

import (
	"context"
	"errors"

	"github.com/fairlock/fairlock/integration/faults"
)

// ErrUnsupported: namespaces and all else that this package rests on are Linux.
var ErrUnsupported = errors.New("lab: needs Linux")

// Enter fails.
func Enter(func(context.Context) error) error { return ErrUnsupported }

// Rows has no rows here.
func Rows() []faults.Row { return nil }
