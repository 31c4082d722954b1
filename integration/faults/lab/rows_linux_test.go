package lab_test

import (
	"testing"

	"github.com/fairlock/fairlock/integration/faults/lab"
	"github.com/fairlock/fairlock/integration/faults/short"
)

// TestRows is a short run of every row of this package.
func TestRows(t *testing.T) { short.Pass(t, lab.Rows()) }
