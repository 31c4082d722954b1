package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// SoakOptions say what Soak does.
type SoakOptions struct {
	Rows   []Row
	Runs   int           // of each row
	Length time.Duration // of each run's fault phase
	Seed   uint64        // the runs' seeds come from it
	File   string        // of results; what it has is not run again
	Log    func(format string, args ...any)
}

// Performer makes runs. It is a [Runner], but in tests of this package.
type Performer interface {
	Run(ctx context.Context, row Row, run int, seed uint64, length time.Duration) (Result, error)
}

// ErrUnsound: a run has broken a promise.
var ErrUnsound = errors.New("faults: promises were broken")

// Soak runs all rows, and then all again, until each has had its runs. Runs that are in the file already are left out, unless they
// were void; those are made again, as is a run that could not be made, which is not in it. It returns all results that the file then has
// of these rows, and an error that matches [ErrUnsound] if one of them has a violation; nothing stops at the first.
func Soak(ctx context.Context, p Performer, o SoakOptions) ([]Result, error) {
	results, err := ReadResults(o.File)
	if err != nil {
		return nil, err
	}
	has := func(row string, run int) bool {
		return slices.ContainsFunc(results, func(r Result) bool { return r.Row == row && r.Run == run && r.Void == "" })
	}
	var failed error
	for run := 1; run <= o.Runs; run++ {
		for _, row := range o.Rows {
			if has(row.Name, run) {
				continue
			}
			if ctx.Err() != nil {
				return results, context.Cause(ctx)
			}
			res, err := p.Run(ctx, row, run, o.Seed+uint64(run), o.Length)
			if err != nil {
				if ctx.Err() == nil {
					o.Log("%s: run %d: could not be made: %v", row.Name, run, err)
				}
				failed = errors.Join(failed, fmt.Errorf("%s: run %d: %w", row.Name, run, err))
				continue
			}
			if err := AppendResult(o.File, res); err != nil {
				return results, err
			}
			results = append(results, res)
			o.Log("%s: run %d: %d grants, %.0f/s, %d violations, recoveries %v%s", row.Name, run, res.Grants, res.Rate, len(res.Violations), res.Recoveries, voidNote(res.Void))
			for _, v := range res.Violations {
				o.Log("VIOLATION (seed %d, kept in %s): %s", res.Seed, res.Kept, v)
			}
		}
	}
	var mine []Result
	unsound := 0
	for _, r := range results {
		if slices.ContainsFunc(o.Rows, func(row Row) bool { return row.Name == r.Row }) {
			mine = append(mine, r)
			if len(r.Violations) > 0 {
				unsound++
			}
		}
	}
	if unsound > 0 {
		failed = errors.Join(fmt.Errorf("%w in %d of %d runs", ErrUnsound, unsound, len(mine)), failed)
	}
	return mine, failed
}

func voidNote(why string) string {
	if why == "" {
		return ""
	}
	return "; VOID: " + why
}
