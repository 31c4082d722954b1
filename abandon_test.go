package fairlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
)

// TestAbandon gives a call up in each state of its claim. Nothing may be left, and those behind must not notice.
func TestAbandon(t *testing.T) {
	gated := func(at memstore.Point, op memstore.Op) func(*bed, *proc) (*attempt, func()) {
		return func(b *bed, p *proc) (*attempt, func()) {
			gate := memstore.NewGate()
			remove := p.store.Hook(at, op, gate.Pass)
			a := p.begin("x")
			<-gate.Reached()
			return a, func() { remove(); gate.Open() }
		}
	}
	for _, c := range []struct {
		name  string
		state claimState
		begin func(*bed, *proc) (a *attempt, proceed func())
	}{
		{"while the session is begun", asked, gated(memstore.Before, memstore.OpBeginSession)},
		{"asked, before it took effect", asked, gated(memstore.Before, memstore.OpEnqueue)},
		{"asked, after it took effect", asked, gated(memstore.After, memstore.OpEnqueue)},
		{"pending", pending, func(b *bed, p *proc) (*attempt, func()) {
			gate := memstore.NewGate()
			p.store.Hook(memstore.Before, memstore.OpEnqueue, gate.Pass)
			first := p.begin("x")
			a := p.begin("x")
			return a, func() {
				gate.Open()
				b.unlock(first.granted())
			}
		}},
		{"queued behind another process", queued, func(b *bed, p *proc) (*attempt, func()) {
			l := b.proc().lock("x")
			return p.begin("x"), func() { b.unlock(l) }
		}},
		{"queued with a ticket", queued, func(b *bed, p *proc) (*attempt, func()) {
			l := b.proc().lock("x")
			a := p.begin("x")
			time.Sleep(time.Second)
			require.Len(b.t, b.srv.Tickets(), 2)
			return a, func() { b.unlock(l) }
		}},
		{"queued while its ticket is being written", queued, func(b *bed, p *proc) (*attempt, func()) {
			l := b.proc().lock("x")
			gate := memstore.NewGate()
			p.store.Hook(memstore.Before, memstore.OpPutTicket, gate.Pass)
			a := p.begin("x")
			<-gate.Reached()
			return a, func() { gate.Open(); b.unlock(l) }
		}},
		{"queued behind one of its own process", queued, func(b *bed, p *proc) (*attempt, func()) {
			l := p.lock("x")
			return p.begin("x"), func() { b.unlock(l) }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bed) {
				p, other := b.proc(), b.proc()
				b.unlock(other.lock("warm up"))
				a, proceed := c.begin(b, p)
				line := p.lineOf("x")
				require.Equal(b.t, 1, countClaims(line, c.state), "the test is about the state %v", c.state)
				a.cancel()
				require.ErrorIs(b.t, a.failed(), context.Canceled)
				require.ErrorContains(b.t, a.err, `lock "x" not obtained after`)
				if c.state == pending {
					proceed() // what holds the claim back would be behind the next one
				}
				behind := other.begin("x")
				if c.state != pending {
					proceed()
				}
				b.unlock(behind.grantedIn(100 * time.Millisecond))
				time.Sleep(200 * time.Millisecond)
				b.requireIdle("x")
				require.EqualValues(b.t, 0, p.Stats().Lost)
			})
		})
	}
}

// countClaims counts claims by state. One that is asked for is in no list: it is what the enqueue on its way is for.
func countClaims(l *line, state claimState) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[claimState]int{}
	for _, c := range l.pending {
		n[c.state]++
	}
	for _, r := range l.runs {
		for _, c := range r.claims {
			n[c.state]++
		}
	}
	if l.asking && len(n) == 0 {
		n[asked] = 1
	}
	return n[state]
}

// TestAbandonHeld: the grant came at the same time as the end of the wait.
func TestAbandonHeld(t *testing.T) {
	bubble(t, func(b *bed) {
		p, other := b.proc(), b.proc()
		l := p.lock("x")
		behind := other.begin("x")
		require.NoError(b.t, l.line.abandon(l.claim))
		b.unlock(behind.granted())
		b.requireIdle("x")
	})
}

func TestAbandonInTheMiddle(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		first := q.lock("x")
		gate := memstore.NewGate()
		remove := p.store.Hook(memstore.Before, memstore.OpEnqueue, gate.Pass)
		var calls []*attempt
		for range 6 {
			calls = append(calls, p.begin("x"))
		}
		remove()
		gate.Open()
		synctest.Wait()
		last := q.begin("x")
		for _, i := range []int{0, 2, 5} {
			calls[i].cancel()
			require.Error(b.t, calls[i].failed())
		}
		b.unlock(first)
		for _, i := range []int{1, 3, 4} {
			require.False(b.t, last.over())
			b.unlock(calls[i].granted())
		}
		b.unlock(last.granted())
		b.requireIdle("x")
	})
}

func TestMaxWait(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		l := q.lock("x")
		a := p.begin("x", MaxWait(1500*time.Millisecond))
		time.Sleep(1499 * time.Millisecond)
		require.False(b.t, a.over())
		time.Sleep(time.Millisecond)
		require.ErrorIs(b.t, a.failed(), ErrWaitLimit)
		require.ErrorContains(b.t, a.err, "after 1.5s")
		b.unlock(l)
		b.requireIdle("x")
	})
}

func TestEndedContextTakesNothing(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		_, err := p.Lock(ctx, "x")
		require.ErrorIs(b.t, err, context.Canceled)
		_, err = p.TryLock(ctx, "x")
		require.ErrorIs(b.t, err, context.Canceled)
		require.Zero(b.t, p.store.Calls(memstore.OpEnqueue)+p.store.Calls(memstore.OpTry)+p.store.Calls(memstore.OpBeginSession))
	})
}

// TestAbandonTry: the caller is gone when the number comes.
func TestAbandonTry(t *testing.T) {
	for _, at := range []memstore.Point{memstore.Before, memstore.After} {
		bubbled := func(t *testing.T) {
			bubble(t, func(b *bed) {
				p := b.proc()
				gate := memstore.NewGate()
				p.store.Hook(at, memstore.OpTry, gate.Pass)
				a := p.beginTry("x")
				<-gate.Reached()
				a.cancel()
				require.ErrorIs(b.t, a.failed(), context.Canceled)
				gate.Open()
				synctest.Wait()
				b.requireIdle("x")
			})
		}
		t.Run([]string{"before", "after"}[at], bubbled)
	}
}

// TestWaitErrorNamesTheFailure: the caller's time ran out because the database could not be reached.
func TestWaitErrorNamesTheFailure(t *testing.T) {
	bubble(t, func(b *bed) {
		p := b.proc()
		remove := p.store.Hook(memstore.Before, memstore.OpAny, memstore.Fail(1000, memstore.ErrNoReply))
		a := p.begin("x", MaxWait(3*time.Second))
		time.Sleep(3 * time.Second)
		require.ErrorIs(b.t, a.failed(), ErrWaitLimit)
		require.ErrorIs(b.t, a.err, memstore.ErrNoReply)
		remove()
	})
}
