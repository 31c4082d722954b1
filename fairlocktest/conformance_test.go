package fairlocktest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/conformance"
	"github.com/fairlock/fairlock/queue"
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
		settled := map[string]bool{}
		for _, k := range m.Tickets() {
			if v, found := m.Lock(k.ID.Lock); found && len(queue.Subtract(queue.Range{Lo: max(k.ID.Lo, v.Settled+1), Hi: k.Hi}, v.Done)) == 0 {
				settled[fmt.Sprintf("ticket %v to %d of session %q", k.ID, k.Hi, k.Session)] = true
			}
		}
		for _, what := range m.Unrest() {
			// A killed process may have had the right to sweep. Who takes that next clears its number; nobody is left to do it.
			sweep := strings.Contains(what, "\tsweep") || strings.Contains(what, `\tsweep`)
			// Who clears the dead settles, and then deletes the tickets. The test may end in between; the sweep deletes them then.
			if !sweep && !settled[what] {
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
