package memstore_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// failure is the error of a call that returns something else too.
func failure[T any](_ T, err error) error { return err }
