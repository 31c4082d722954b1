package mutants

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// module is a module of one package, with a test for each way in which a test can end.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":     "module example.test/sums\n\ngo 1.26\n",
		"sum/sum.go": "package sum\n\nfunc Sum(a, b int) int { return a + b }\n\nfunc Max(a, b int) int { return max(a, b) }\n",
		"sum/sum_test.go": `package sum

import "testing"

func TestSum(t *testing.T) {
	t.Run("of two", func(t *testing.T) {
		if Sum(2, 3) != 5 {
			t.Error("wrong")
		}
	})
}

func TestStrict(t *testing.T) {
	if Sum(2, 3) != 5 {
		panic("not five")
	}
}

func TestMax(t *testing.T) { Max(1, 2) }

func TestBroken(t *testing.T) { t.Error("always") }
`,
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return dir
}

func minus(id, test, says string) Mutant {
	return Mutant{ID: id, File: "sum/sum.go", Edits: []Edit{{"a + b", "a - b"}}, Catch: Catch{Pkg: "sum", Test: test, Says: says}}
}

// TestRun: each way in which a mutant can end.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := module(t)
	source := filepath.Join(dir, "sum", "sum.go")
	before, err := os.ReadFile(source)
	require.NoError(t, err)
	ms := []Mutant{
		minus("caught", "TestSum", ""),
		minus("caught by a subtest", "TestSum/of two", ""),
		minus("caught by a panic", "TestStrict", "not five"),
		minus("a panic that was not said", "TestStrict", ""),
		minus("another panic", "TestStrict", "not six"),
		minus("survives", "TestMax", ""),
		{ID: "unbuilt", File: "sum/sum.go", Edits: []Edit{{"a + b", `"a"`}}, Catch: Catch{Pkg: "sum", Test: "TestSum"}},
	}
	told := 0
	results, err := Run(t.Context(), ms, Options{Root: dir, Limit: time.Minute, Done: func(Result) { told++ }})
	require.NoError(t, err)
	require.Equal(t, len(ms), told)
	var have []Verdict
	for _, r := range results {
		have = append(have, r.Verdict)
	}
	require.Equal(t, []Verdict{Caught, Caught, Caught, Otherwise, Otherwise, Survived, Unbuilt}, have)
	after, err := os.ReadFile(source)
	require.NoError(t, err)
	require.Equal(t, before, after, "the tree is never written to")

	hunted, err := Run(t.Context(), ms[5:6], Options{Root: dir, Limit: time.Minute, Hunt: true})
	require.NoError(t, err)
	require.Contains(t, hunted[0].Failed, "TestSum/of two", "which other tests would have caught it")
}

// TestRunThatProvesNothing: a catcher that fails by itself, or is not there, and a mutant that does not fit.
func TestRunThatProvesNothing(t *testing.T) {
	t.Parallel()
	dir := module(t)
	run := func(ctx context.Context, m Mutant) error {
		_, err := Run(ctx, []Mutant{m}, Options{Root: dir, Limit: time.Minute})
		return err
	}
	require.ErrorIs(t, run(t.Context(), minus("x", "TestBroken", "")), errBaseline)
	require.ErrorIs(t, run(t.Context(), minus("x", "TestNowhere", "")), errBaseline)
	for _, edits := range [][]Edit{nil, {{"a * b", "a - b"}}, {{"a, b int", "a, b int64"}}, {{"a + b", "a + b"}}, {{"a + b", "a +"}}} {
		m := minus("x", "TestSum", "")
		m.Edits = edits
		require.ErrorIs(t, run(t.Context(), m), ErrNotApplicable)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, run(over, minus("x", "TestSum", "")), context.Canceled)
}

func TestSelect(t *testing.T) {
	t.Parallel()
	all := []Mutant{{ID: "a-1", File: "q/x.go"}, {ID: "a-2", File: "q/y.go"}, {ID: "b", File: "z.go"}}
	for _, c := range []struct {
		ids  []string
		want []Mutant
	}{{nil, all}, {[]string{"a-*"}, all[:2]}, {[]string{"b", "a-1"}, []Mutant{all[0], all[2]}}, {[]string{"q"}, all[:2]}, {[]string{"."}, all[2:]}, {[]string{"z.go"}, all[2:]}} {
		have, err := Select(all, c.ids)
		require.NoError(t, err)
		require.Equal(t, c.want, have)
	}
	_, err := Select(all, []string{"c"})
	require.ErrorContains(t, err, `"c"`)
}

func TestRewrite(t *testing.T) {
	t.Parallel()
	ms := []Mutant{minus("one", "TestSum", ""), minus("two", "TestSum/of two", "")}
	results := []Result{{Mutant: ms[0], Took: time.Second}, {Mutant: ms[1], Took: 20 * time.Millisecond}}
	for i := range results {
		results[i].Mutant.Fault, results[i].Mutant.Breaks = "subtracts", "sums (I1)"
	}
	page := []byte("before\n" + beginMark + "old\n" + endMark + "after\n")
	page, err := Rewrite(page, Table(results, time.Unix(0, 0), time.Minute))
	require.NoError(t, err)
	require.Contains(t, string(page), "2 mutants, all caught, in 1m0s, on 1 January 1970.")
	require.Contains(t, string(page), "| two | sum/sum.go | subtracts | sums (I1) | `sum TestSum/of two` | 0.02 s |\n")
	rows, err := Listed(page)
	require.NoError(t, err)
	require.Equal(t, []string{row(&results[0].Mutant), row(&results[1].Mutant)}, rows)
	_, err = Rewrite([]byte("no markers"), "x")
	require.ErrorIs(t, err, ErrNoMarkers)
}
