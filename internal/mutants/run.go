package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options is how to run.
type Options struct {
	Root string   // of the module
	Env  []string // more environment for test binaries
	// Limit is the time that one test binary has. What takes longer is no catch, unless the list says so.
	Limit time.Duration
	// Hunt runs all tests of the catcher's package, to find out which ones fail.
	Hunt bool
	// Done is told of each result, by one goroutine at a time, in the order in which they come.
	Done func(Result)
}

// Verdict is what became of a mutant.
type Verdict string

const (
	// Caught: the catcher failed as it should.
	Caught Verdict = "caught"
	// Survived: the catcher passed.
	Survived Verdict = "SURVIVED"
	// Unbuilt: it does not compile.
	Unbuilt Verdict = "DOES NOT BUILD"
	// Otherwise: the test binary ended badly, and not in the way that the list names.
	Otherwise Verdict = "ENDED OTHERWISE"
)

// Result is one mutant's run.
type Result struct {
	Mutant  Mutant
	Verdict Verdict
	Took    time.Duration // the catcher, without the build
	Output  string        // the test binary's, or the compiler's
	Failed  []string      // all tests that failed
}

// errBaseline: without mutants the catchers must pass.
var errBaseline = errors.New("catchers fail without a mutant, so nothing is proved")

// Run runs the mutants. The error is about the run itself; what became of the mutants is in the results, in their order.
func Run(ctx context.Context, ms []Mutant, o Options) ([]Result, error) {
	dir, err := os.MkdirTemp("", "fairlock-mutants-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &runner{Options: o, dir: dir}
	var misfits error
	for i := range ms {
		_, err := ms[i].applyIn(o.Root)
		misfits = errors.Join(misfits, err)
	}
	if misfits != nil {
		return nil, misfits
	}
	if !o.Hunt {
		if err := r.baseline(ctx, ms); err != nil {
			return nil, err
		}
	}
	results := make([]Result, len(ms))
	type built struct {
		i      int
		binary string
	}
	ready := make(chan built)
	done := make(chan int, len(ms))
	g, ctx := errgroup.WithContext(ctx)
	// Built one after another, since a build uses all processors; two run meanwhile, since tests on a server wait a lot.
	g.Go(func() error {
		defer close(ready)
		for i := range ms {
			results[i].Mutant = ms[i]
			binary := filepath.Join(dir, fmt.Sprintf("mutant%d.test", i))
			out, err := r.buildMutant(ctx, &ms[i], binary)
			switch {
			case err != nil:
				return err
			case out != "":
				results[i].Verdict, results[i].Output = Unbuilt, out
				done <- i
				continue
			}
			select {
			case ready <- built{i, binary}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range 2 {
		g.Go(func() error {
			for b := range ready {
				if err := r.try(ctx, &results[b.i], b.binary); err != nil {
					return err
				}
				done <- b.i
			}
			return nil
		})
	}
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		for i := range done {
			if o.Done != nil {
				o.Done(results[i])
			}
		}
	}()
	err = g.Wait()
	close(done)
	<-reported
	return results, err
}

type runner struct {
	Options
	dir string // temporary
}

// baseline builds and runs all catchers without a mutant.
func (r *runner) baseline(ctx context.Context, ms []Mutant) error {
	type group struct {
		args  []string
		tests []string
	}
	groups := map[string]map[string]*group{} // by package, and by arguments
	var pkgs []string
	for _, m := range ms {
		c := m.Catch
		if groups[c.Pkg] == nil {
			groups[c.Pkg] = map[string]*group{}
			pkgs = append(pkgs, c.Pkg)
		}
		key := strings.Join(c.Args, " ")
		if groups[c.Pkg][key] == nil {
			groups[c.Pkg][key] = &group{args: c.Args}
		}
		g := groups[c.Pkg][key]
		if !slices.Contains(g.tests, c.top()) {
			g.tests = append(g.tests, c.top())
		}
	}
	for i, pkg := range pkgs {
		binary := filepath.Join(r.dir, fmt.Sprintf("base%d.test", i))
		if out, err := r.build(ctx, pkg, binary); err != nil || out != "" {
			return errors.Join(err, fmt.Errorf("%w: %s does not build:\n%s", errBaseline, pkg, out))
		}
		for _, g := range groups[pkg] {
			out, err := r.exec(ctx, pkg, binary, "^("+strings.Join(g.tests, "|")+")$", 5*r.Limit, g.args...)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("%w: %s: %w\n%s", errBaseline, pkg, err, out)
			}
			for _, t := range g.tests {
				if !strings.Contains(out, "--- PASS: "+t+" ") {
					return fmt.Errorf("%w: %s: no %s there", errBaseline, pkg, t)
				}
			}
		}
		if err := os.Remove(binary); err != nil {
			return err
		}
	}
	return nil
}

// buildMutant builds the catcher's test binary over the mutated file. out is what the compiler says against it, "" when it is
// built.
func (r *runner) buildMutant(ctx context.Context, m *Mutant, binary string) (out string, err error) {
	mutated, err := m.applyIn(r.Root)
	if err != nil {
		return "", err
	}
	file := binary + ".go"
	if err := os.WriteFile(file, mutated, 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(r.Root, filepath.FromSlash(m.File)): file},
	})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(binary+".json", overlay, 0o600); err != nil {
		return "", err
	}
	return r.build(ctx, m.Catch.Pkg, binary, "-overlay", binary+".json")
}

func (r *runner) build(ctx context.Context, pkg, binary string, flags ...string) (out string, err error) {
	// Without debug information a test binary links in half the time.
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = r.Root
	said, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.As(err, &exit):
		return string(said) + exit.Error(), nil
	}
	return "", err
}

// try runs the catcher against a mutant.
func (r *runner) try(ctx context.Context, res *Result, binary string) error {
	c := res.Mutant.Catch
	pattern := c.pattern()
	if r.Hunt {
		pattern = "."
	}
	began := time.Now()
	out, err := r.exec(ctx, c.Pkg, binary, pattern, r.Limit, c.Args...)
	res.Took = time.Since(began)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	res.Output = out
	res.Failed = failures(out)
	res.Verdict = judge(c, out, err)
	return os.Remove(binary)
}

// judge says what a test binary's end means.
func judge(c Catch, out string, err error) Verdict {
	crashed := crash.MatchString(out)
	switch {
	case err == nil:
		return Survived
	case c.Says != "":
		if strings.Contains(out, c.Says) {
			return Caught
		}
	case !crashed && slices.Contains(failures(out), blanks(c.Test)):
		return Caught
	}
	return Otherwise
}

var (
	// What the runtime and package testing print when a test did not fail but the process ended.
	crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |\s*panic: )`)
	fail  = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+) \(`)
)

// failures is the tests that failed.
func failures(out string) []string {
	var all []string
	for _, m := range fail.FindAllStringSubmatch(out, -1) {
		all = append(all, blanks(m[1]))
	}
	return all
}

// blanks undoes what package testing does to blanks in names of subtests, and to underscores with them.
func blanks(test string) string { return strings.ReplaceAll(test, "_", " ") }

// exec runs a test binary in its package's folder, as go test does.
func (r *runner) exec(ctx context.Context, pkg, binary, pattern string, limit time.Duration, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, binary, append([]string{
		"-test.run=" + pattern, "-test.v", "-test.failfast=" + fmt.Sprint(!r.Hunt), "-test.timeout=" + limit.String(), "-test.paniconexit0",
	}, args...)...)
	cmd.Dir = filepath.Join(r.Root, filepath.FromSlash(pkg))
	cmd.Env = append(os.Environ(), r.Env...)
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
