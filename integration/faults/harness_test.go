package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/integration/faults"
	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/history"
)

// picture is a file that is not there.
type picture struct{ bytes.Buffer }

func (*picture) Close() error { return nil }

// ops is the two lines of a write, or of a read.
func write(proc int, id, token int64, call, ret faults.Instant, out faults.Outcome) []faults.Op {
	value := string(rune('a' + token))
	lines := []faults.Op{{Proc: proc, ID: id, Lock: "x", Token: token, Value: value, Call: call}}
	if out != "" {
		lines = append(lines, faults.Op{Proc: proc, ID: id, Return: ret, Outcome: out})
	}
	return lines
}

func read(proc int, id, token int64, call, ret faults.Instant) []faults.Op {
	return []faults.Op{
		{Proc: proc, ID: id, Lock: "x", Read: true, Call: call},
		{Proc: proc, ID: id, Return: ret, Outcome: faults.Shown, Token: token, Value: string(rune('a' + token))},
	}
}

func TestRegisterHistories(t *testing.T) {
	t.Parallel()
	join := func(all ...[]faults.Op) (lines []faults.Op) {
		for _, l := range all {
			lines = append(lines, l...)
		}
		return lines
	}
	for name, c := range map[string]struct {
		lines []faults.Op
		bad   bool
	}{
		"rising tokens":                {join(write(1, 1, 1, 10, 20, faults.Accepted), write(2, 1, 2, 30, 40, faults.Accepted), read(1, 2, 2, 50, 60)), false},
		"a stale write is refused":     {join(write(2, 1, 2, 10, 20, faults.Accepted), write(1, 1, 1, 30, 40, faults.Refused)), false},
		"a stale write is accepted":    {join(write(2, 1, 2, 10, 20, faults.Accepted), write(1, 1, 1, 30, 40, faults.Accepted)), true},
		"a fresh write is refused":     {join(write(1, 1, 1, 10, 20, faults.Accepted), write(2, 1, 2, 30, 40, faults.Refused)), true},
		"a read is stale":              {join(write(1, 1, 1, 10, 20, faults.Accepted), write(2, 1, 2, 30, 40, faults.Accepted), read(1, 2, 1, 50, 60)), true},
		"an unknown write shows later": {join(write(1, 1, 1, 10, 0, faults.Unknown), read(2, 1, 1, 50, 60)), false},
		"a killed writer's never does": {join(write(1, 1, 1, 10, 0, ""), write(2, 1, 2, 30, 40, faults.Accepted), read(2, 2, 2, 50, 60)), false},
		"an unknown write of an older token shows after a newer one": {
			join(write(1, 1, 1, 10, 0, faults.Unknown), write(2, 1, 2, 30, 40, faults.Accepted), read(2, 2, 1, 50, 60)), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p picture
			bad, err := faults.CheckRegisters(c.lines, func(string) (io.WriteCloser, error) { return &p, nil })
			require.NoError(t, err)
			require.Equal(t, c.bad, len(bad) > 0, "%v", bad)
			require.Contains(t, p.String(), "<html")
		})
	}
}

// script makes runs that nobody makes.
type script struct {
	made []string
	res  func(row faults.Row, run int) (faults.Result, error)
}

func (s *script) Run(_ context.Context, row faults.Row, run int, seed uint64, _ time.Duration) (faults.Result, error) {
	s.made = append(s.made, row.Name)
	res, err := s.res(row, run)
	res.Row, res.Run, res.Seed = row.Name, run, seed
	return res, err
}

func soakOptions(t *testing.T, runs int) faults.SoakOptions {
	return faults.SoakOptions{
		Rows: []faults.Row{{Name: "a", Bound: time.Second}, {Name: "b"}}, Runs: runs, Length: time.Second,
		File: filepath.Join(t.TempDir(), "soak.jsonl"), Log: t.Logf,
	}
}

// TestSoakResumes: what is in the file is not run again, also if its last line was cut short.
func TestSoakResumes(t *testing.T) {
	t.Parallel()
	o := soakOptions(t, 2)
	s := &script{res: func(faults.Row, int) (faults.Result, error) { return faults.Result{Grants: 10}, nil }}
	results, err := faults.Soak(t.Context(), s, o)
	require.NoError(t, err)
	require.Len(t, results, 4)
	require.Equal(t, []string{"a", "b", "a", "b"}, s.made)

	text, err := os.ReadFile(o.File)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(o.File, text[:len(text)-5], 0o600))
	s.made = nil
	o.Runs = 3
	results, err = faults.Soak(t.Context(), s, o)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "a", "b"}, s.made, "the run whose line was cut short, and the third of both")
	require.Len(t, results, 6)
	again, err := faults.ReadResults(o.File)
	require.NoError(t, err)
	require.Len(t, again, 6)
}

// TestSoakGoesOnAfterAViolation and says so at the end.
func TestSoakGoesOnAfterAViolation(t *testing.T) {
	t.Parallel()
	o := soakOptions(t, 2)
	s := &script{res: func(row faults.Row, run int) (faults.Result, error) {
		if row.Name == "a" && run == 1 {
			return faults.Result{Violations: []string{"exclusion: two"}}, nil
		}
		return faults.Result{}, nil
	}}
	results, err := faults.Soak(t.Context(), s, o)
	require.ErrorIs(t, err, faults.ErrUnsound)
	require.Len(t, results, 4)
	_, err = faults.Soak(t.Context(), s, o)
	require.ErrorIs(t, err, faults.ErrUnsound, "the violation is in the file, so it counts after a resume as well")
	require.Len(t, s.made, 4)
}

// TestSoakMakesAFailedRunAgain: a run that could not be made is no result.
func TestSoakMakesAFailedRunAgain(t *testing.T) {
	t.Parallel()
	o := soakOptions(t, 1)
	broken := errors.New("no servers")
	s := &script{res: func(row faults.Row, _ int) (faults.Result, error) {
		if row.Name == "a" {
			return faults.Result{}, broken
		}
		return faults.Result{}, nil
	}}
	_, err := faults.Soak(t.Context(), s, o)
	require.ErrorIs(t, err, broken)
	s.made = nil
	_, _ = faults.Soak(t.Context(), s, o)
	require.Equal(t, []string{"a"}, s.made)
}

func TestTable(t *testing.T) {
	t.Parallel()
	rows := []faults.Row{{Name: "a", Bound: 8 * time.Second}, {Name: "b"}, {Name: "c"}}
	table := faults.Table(rows, []faults.Result{
		{Row: "a", Grants: 1000, Rate: 150, Recoveries: []faults.Recovery{{MS: 3000}, {MS: 1000}, {MS: 2000}}},
		{Row: "a", Grants: 500, Rate: 120, Violations: []string{"x", "y"}, Recoveries: []faults.Recovery{{MS: -1}}},
		{Row: "a", Grants: 7, Void: "too slow", Recoveries: []faults.Recovery{{MS: 9000}}},
		{Row: "b", Grants: 5, Rate: 110},
	})
	require.Contains(t, table, "| a | 3 | 1 | 1500 | 120 | 100 | 2 | 2.00 s | never | 8.00 s |")
	require.Contains(t, table, "| b | 1 | 0 | 5 | 110 | 100 | 0 | – | – | – |")
	require.NotContains(t, table, "| c |")
}

// oneRun makes a real run of a row, on one server.
func oneRun(t *testing.T, row faults.Row) (faults.Result, string) {
	dir := t.TempDir()
	row.Set.Members = 1
	row.Crew = faults.CrewOptions{Procs: 2, Callers: 4, Locks: 2}
	rn := &faults.Runner{Dir: dir, Log: t.Logf}
	res, err := rn.Run(t.Context(), row, 1, 1, time.Second)
	require.NoError(t, err)
	require.NoError(t, rn.Close(t.Context()))
	return res, dir
}

// TestVoid: a crew that is too slow proves nothing, and no harm is done.
func TestVoid(t *testing.T) {
	res, dir := oneRun(t, faults.Row{
		Name: "void", Gate: 1e6, Warm: 3 * time.Second,
		Fault:  func(context.Context, *faults.Run) error { return errors.New("harm was done") },
		Expect: func(*faults.Run) []string { return []string{"something was expected"} },
	})
	require.NotEmpty(t, res.Void)
	require.Empty(t, res.Violations)
	require.False(t, res.OK())
	require.Empty(t, res.Kept)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "void.html")}, left, "the picture is all that stays")
}

// TestDoctored: two holders at a time, a stale write, a recovery that is too late and a broken promise are reported, each by itself,
// and the run is kept.
func TestDoctored(t *testing.T) {
	row := faults.Row{
		Name: "doctored", Bound: time.Nanosecond, Gate: 1,
		Fault: func(ctx context.Context, r *faults.Run) error {
			if err := r.Sleep(ctx, 3*time.Second); err != nil {
				return err
			}
			r.Mark(faults.Mark{What: "nothing"})
			for _, f := range []struct {
				name  string
				lines []any
			}{
				{"events-98.jsonl", toAny(doctoredEvents(98, 1))},
				{"events-99.jsonl", toAny(doctoredEvents(99, 2))},
				{"register-98.jsonl", toAny(append(write(98, 1, 2, 10, 20, faults.Accepted), write(98, 2, 1, 30, 40, faults.Accepted)...))},
			} {
				if err := writeLines(filepath.Join(r.Dir, f.name), f.lines); err != nil {
					return err
				}
			}
			return nil
		},
		Expect: func(*faults.Run) []string { return []string{"the moon is green"} },
	}
	res, _ := oneRun(t, row)
	require.Empty(t, res.Void)
	require.DirExists(t, res.Kept)
	require.FileExists(t, filepath.Join(res.Kept, "register-x.html"))
	for _, want := range []string{"exclusion: ", "order: ", "recovery: ", "register \"x\"", "expected: the moon is green"} {
		require.True(t, slices.ContainsFunc(res.Violations, func(v string) bool { return strings.HasPrefix(v, want) }), "%q in %q", want, res.Violations)
	}
	require.Len(t, res.Violations, 5, "%q", res.Violations)
}

// doctoredEvents is a process that trusts the lock "x" by its number from 100 to 200.
func doctoredEvents(proc int, number int64) []history.Event {
	e := history.Event{Proc: proc, Call: 1, Lock: "x"}
	at := func(kind history.Kind, at history.Event) history.Event {
		at.Kind, at.Proc, at.Call, at.Lock = kind, e.Proc, e.Call, e.Lock
		return at
	}
	shift := clock.Instant(number)
	return []history.Event{
		at(history.Call, history.Event{At: 10 * shift, Units: 1, Permits: 1}),
		at(history.Arrived, history.Event{Sent: 20 * shift, At: 21 * shift, Lo: number, Hi: number}),
		at(history.Granted, history.Event{At: 100, Lo: number, Hi: number}),
		at(history.Trusted, history.Event{At: 101, Until: 300}),
		at(history.Released, history.Event{At: 200}),
	}
}

func toAny[T any](all []T) (out []any) {
	for _, v := range all {
		out = append(out, v)
	}
	return out
}

func writeLines(path string, lines []any) error {
	var b bytes.Buffer
	for _, l := range lines {
		if err := json.NewEncoder(&b).Encode(l); err != nil {
			return err
		}
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}
