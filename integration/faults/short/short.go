// Package short is the short pass: one run of each row, of its short length, in go test.
package short

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/integration/faults"
)

// EnvSeed is a seed for the runs, to repeat one. Without it the seed is the time.
const EnvSeed = "FAIRLOCK_FAULTS_SEED"

// mostTries is how often a run is made until one is not void. A void run is no evidence, for or against: the machine was busy with something
// else. A machine that never carries the gate proves nothing, and fails.
const mostTries = 3

// Pass runs each row once, one after the other, since they need the machine for themselves. Each result is appended to .faults/short.jsonl in
// integration/faults, beside what was kept of runs with violations.
func Pass(t *testing.T, rows []faults.Row) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, file, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(filepath.Dir(file)), ".faults")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	seed := uint64(time.Now().UnixMilli())
	if s := os.Getenv(EnvSeed); s != "" {
		_, err := fmt.Sscan(s, &seed)
		require.NoError(t, err)
	}
	var logf func(string, ...any)
	rn := &faults.Runner{Dir: dir, Log: func(format string, args ...any) { logf(format, args...) }}
	logf = t.Logf
	defer func() { require.NoError(t, rn.Close(ctx)) }()
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			logf = t.Logf
			var res faults.Result
			for try := 1; try == 1 || try <= mostTries && res.Void != "" && len(res.Violations) == 0; try++ {
				var err error
				res, err = rn.Run(ctx, row, try, seed, row.ShortLength())
				require.NoError(t, err)
				require.NoError(t, faults.AppendResult(filepath.Join(dir, "short.jsonl"), res))
			}
			t.Logf("%d grants, %.0f/s before the fault, recoveries %v, %d lost, took %.1f s; %v", res.Grants, res.Rate, res.Recoveries, res.Lost, res.Took, res.Notes)
			for _, v := range res.Violations {
				t.Errorf("%s", v)
			}
			if res.Kept != "" {
				t.Errorf("seed %d; histories and logs are kept in %s", seed, res.Kept)
			}
			require.Empty(t, res.Void, "void in %d tries", mostTries)
		})
	}
}
