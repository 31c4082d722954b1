package faults_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/integration/faults"
	"github.com/fairlock/fairlock/integration/faults/short"
)

func TestMain(m *testing.M) {
	faults.WorkerMain()
	goleak.VerifyTestMain(m)
}

// TestRows is a short run of every row of this package.
func TestRows(t *testing.T) { short.Pass(t, faults.Rows()) }
