package mutants

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Mutant is one fault.
type Mutant struct {
	ID     string
	File   string // slash path from the root of the module
	Fault  string // what the mutated code does
	Breaks string // the rule or invariant that it makes false
	Edits  []Edit
	Catch  Catch
}

// Edit is a text that occurs exactly once in the file, and what stands there in the mutant.
type Edit struct{ Old, New string }

// Catch is the test that must fail.
type Catch struct {
	Pkg  string   // slash path from the root of the module, "." for the root
	Test string   // its name, or name/subtest
	Args []string // more flags for the test binary
	Says string   // when it does not fail as a test does: part of what is printed as it panics or leaks
}

// Name is the catcher as it is shown to people: as go test takes it.
func (c Catch) Name() string {
	if c.Pkg == "." {
		return c.Test
	}
	return c.Pkg + " " + c.Test
}

// top is the test's function.
func (c Catch) top() string {
	name, _, _ := strings.Cut(c.Test, "/")
	return name
}

// pattern is for -test.run: each level is anchored, so that it runs this test and no other.
func (c Catch) pattern() string {
	levels := strings.Split(c.Test, "/")
	for i, l := range levels {
		levels[i] = "^" + regexp.QuoteMeta(strings.ReplaceAll(l, " ", "_")) + "$"
	}
	return strings.Join(levels, "/")
}

// ErrNotApplicable: the mutant does not fit the source any more.
var ErrNotApplicable = errors.New("mutant does not apply")

// Apply returns the mutated source.
func (m *Mutant) Apply(source []byte) ([]byte, error) {
	out := string(source)
	if len(m.Edits) == 0 {
		return nil, fmt.Errorf("%w: %s: no edit", ErrNotApplicable, m.ID)
	}
	for _, e := range m.Edits {
		if n := strings.Count(out, e.Old); n != 1 || e.Old == e.New {
			return nil, fmt.Errorf("%w: %s: must occur exactly once in %s, occurs %d times: %q", ErrNotApplicable, m.ID, m.File, n, e.Old)
		}
		out = strings.Replace(out, e.Old, e.New, 1)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), m.File, out, parser.SkipObjectResolution); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotApplicable, m.ID, err)
	}
	return []byte(out), nil
}

// pkg is the package of the mutated file.
func (m *Mutant) pkg() string { return path.Dir(m.File) }

// applyIn applies the mutant to its file in the tree.
func (m *Mutant) applyIn(root string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return nil, err
	}
	return m.Apply(source)
}

// All is the list, by package.
func All() []Mutant {
	return slices.Concat(ofQueue, ofWaiter, ofReaper, ofRoot, ofPrimitives, ofGateway, ofObserver, ofCommand)
}

// Select returns the mutants whose id, file or package is one of ids, or whose id begins with one that ends in *; all when ids
// is empty.
func Select(all []Mutant, ids []string) ([]Mutant, error) {
	if len(ids) == 0 {
		return all, nil
	}
	var some []Mutant
	used := map[string]bool{}
	for _, m := range all {
		for _, id := range ids {
			if prefix, any := strings.CutSuffix(id, "*"); m.ID == id || m.File == id || m.pkg() == id || any && strings.HasPrefix(m.ID, prefix) {
				some = append(some, m)
				used[id] = true
				break
			}
		}
	}
	for _, id := range ids {
		if !used[id] {
			return nil, fmt.Errorf("no mutant has the id, the file or the package %q", id)
		}
	}
	return some, nil
}
