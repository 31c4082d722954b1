package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/fairlock/fairlock/internal/history"
)

// mostShown is how many violations of a history are spelled out; one cause often shows in many grants.
const mostShown = 10

// judge checks all that the run has left behind.
func (r *Run) judge(res *Result) {
	if err := r.history.read(); err != nil {
		r.Violate("history: %v", err)
	}
	bad := history.Check(r.history.all(), history.Options{
		Without: slices.Sorted(maps.Keys(r.Row.Omit)), Revoked: r.Row.Revoked,
	})
	for i, v := range bad {
		if i == mostShown {
			r.Violate("and %d more violations of the history", len(bad)-i)
			break
		}
		r.Violate("%s", v)
	}
	ops, err := readOps(r.Dir)
	if err != nil {
		r.Violate("register: %v", err)
	}
	odd, err := CheckRegisters(ops, func(lock string) (io.WriteCloser, error) {
		return os.Create(filepath.Join(r.Dir, "register-"+lock+".html"))
	})
	if err != nil {
		r.Violate("register: %v", err)
	}
	for _, s := range odd {
		r.Violate("%s", s)
	}
	if accepted := slices.ContainsFunc(ops, func(o Op) bool { return o.Outcome == "" && !o.Read }); !accepted && r.Row.Crew.Workload.writes() && res.Void == "" {
		r.Violate("register: no write was accepted in the whole run")
	}
	if r.Row.Expect != nil && res.Void == "" {
		for _, s := range r.Row.Expect(r) {
			r.Violate("expected: %s", s)
		}
	}
	r.count(res, ops)
}

// count fills in the figures.
func (r *Run) count(res *Result, ops []Op) {
	for _, e := range r.history.all() {
		switch e.Kind {
		case history.Granted:
			res.Grants++
		case history.Lost:
			res.Lost++
		case history.Killed:
			res.Killed++
		}
	}
	for _, o := range ops {
		switch {
		case o.Outcome == "" && !o.Read:
			res.Writes++
		case o.Outcome == Refused:
			res.Refused++
		case o.Outcome == Shown:
			res.Reads++
		}
	}
	s, _ := r.Crew.stats()
	res.Requeued, res.ByRecheck = s.Requeued, s.GrantsByRecheck
	res.Streams, res.StreamsFailed = s.StreamsOpened, s.StreamsFailed
	res.SessionsEnded, res.OrphansBuried = s.SessionsEnded, s.OrphansBuried
	r.mu.Lock()
	defer r.mu.Unlock()
	res.Recoveries, res.Violations, res.Notes = r.recoveries, r.violations, r.notes
}

// readOps reads what all processes did to registers.
func readOps(dir string) ([]Op, error) {
	names, err := filepath.Glob(filepath.Join(dir, "register-*.jsonl"))
	if err != nil {
		return nil, err
	}
	var all []Op
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		in := bufio.NewScanner(f)
		for in.Scan() {
			var o Op
			if err := json.Unmarshal(in.Bytes(), &o); err != nil {
				_ = f.Close()
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, o)
		}
		_ = f.Close()
		if err := in.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, nil
}
