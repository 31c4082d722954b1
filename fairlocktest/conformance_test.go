package fairlocktest

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/conformance"
)

// fake is a Server as a deployment's database.
type fake struct{ *Server }

func (f fake) Process(t *testing.T, cfg *fairlock.Config) *conformance.Process {
	p := f.Server.Process(t, cfg)
	return &conformance.Process{Manager: p.Manager, Cut: p.Cut, Heal: p.Heal, Kill: p.Kill}
}

// onFake runs a test on a server of its own. The check comes after the processes are closed: cleanups run in reverse order.
func onFake(t *testing.T, test func(*testing.T, conformance.Database)) {
	s := NewServer()
	t.Cleanup(func() {
		if !t.Failed() {
			require.Empty(t, s.unrest())
		}
	})
	test(t, fake{s})
}

// unrest is what is left that should not be.
func (s *Server) unrest() (left []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.spaces {
		for _, what := range m.Unrest() {
			// A killed process may have had the right to sweep. Who takes that next clears its number; nobody is left to do it.
			if !strings.Contains(what, "\tsweep") && !strings.Contains(what, `\tsweep`) {
				left = append(left, what)
			}
		}
	}
	return left
}

func TestConformanceInBubble(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.Deployment{In: func(t *testing.T, test func(*testing.T, conformance.Database)) {
		synctest.Test(t, func(t *testing.T) { onFake(t, test) })
	}})
}

func TestConformanceInRealTime(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.Deployment{In: onFake})
}
