package integration

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/history"
)

// recorded is a manager, as another process would have, whose calls are taken down. Arrivals are not: numbers are in the order of commits
// (TestOrderIsThatOfCommits), so the order of grants is checked by them.
type recorded struct {
	*fairlock.Manager
	rec   *history.Memory
	proc  int
	calls atomic.Int64
}

// recordedManagers makes n of them with one history.
func (b *bed) recordedManagers(n int) (all []*recorded, rec *history.Memory) {
	rec = &history.Memory{}
	for i := range n {
		all = append(all, &recorded{Manager: b.manager(fairlock.Config{}), rec: rec, proc: i + 1})
	}
	return all, rec
}

// requireSound checks a history, and that all calls were granted and nothing was lost. It returns the number of grants.
func requireSound(t *testing.T, rec *history.Memory) (grants int) {
	t.Helper()
	for _, e := range rec.Events() {
		switch e.Kind {
		case history.Granted:
			grants++
		case history.Failed, history.Lost:
			require.Fail(t, "a call failed, or a lock was lost", "%+v", e)
		}
	}
	require.Empty(t, history.Check(rec.Events(), history.Options{Without: []history.Rule{history.Own, history.Arrivals}}))
	return grants
}

// grip is what a call has got: a lock or a set.
type grip interface {
	Err() error
	Left() time.Duration
	Unlock(ctx context.Context) error
}

// taken is one call.
type taken struct {
	r     *recorded
	calls []int64
	grip  grip
	// The stamps of the calls, each on the side of its event that makes the proof weaker and never wrong.
	called, granted, leaving clock.Instant
}

func (k *taken) tell(e history.Event) clock.Instant {
	e.At = clock.System.Now()
	e.Proc = k.r.proc
	for _, call := range k.calls {
		e.Call = call
		k.r.rec.Record(e)
	}
	return e.At
}

// take makes a call for units of each lock, of permits, by acquire, which returns the tokens in the order of the locks.
func (r *recorded) take(units, permits int64, locks []string, acquire func() (grip, []int64, error)) (*taken, error) {
	k := &taken{r: r, called: clock.System.Now()}
	for range locks {
		k.calls = append(k.calls, r.calls.Add(1))
	}
	for i, name := range locks {
		e := history.Event{Kind: history.Call, At: k.called, Proc: r.proc, Call: k.calls[i], Lock: name, Units: units, Permits: permits}
		if len(locks) > 1 {
			e.Set = k.calls[0]
		}
		r.rec.Record(e)
	}
	g, tokens, err := acquire()
	if err != nil {
		k.tell(history.Event{Kind: history.Failed, Err: err.Error()})
		return nil, err
	}
	k.grip, k.granted = g, clock.System.Now()
	for i, call := range k.calls {
		r.rec.Record(history.Event{Kind: history.Granted, At: k.granted, Proc: r.proc, Call: call, Lo: tokens[i], Hi: tokens[i] + units - 1})
	}
	k.trusts()
	return k, nil
}

// takeOne is take for one lock.
func (r *recorded) takeOne(units, permits int64, lock string, acquire func() (*fairlock.Lock, error)) (*taken, *fairlock.Lock, error) {
	var l *fairlock.Lock
	k, err := r.take(units, permits, []string{lock}, func() (grip, []int64, error) {
		var err error
		if l, err = acquire(); err != nil {
			return nil, nil, err
		}
		return l, []int64{l.Token()}, nil
	})
	return k, l, err
}

func (k *taken) trusts() {
	at := clock.System.Now()
	if left := k.grip.Left(); left > 0 {
		for _, call := range k.calls {
			k.r.rec.Record(history.Event{Kind: history.Trusted, At: at, Until: at.Add(left), Proc: k.r.proc, Call: call})
		}
	} else {
		k.tell(history.Event{Kind: history.Lost})
	}
}

// leave gives all back that is left.
func (k *taken) leave(ctx context.Context) error {
	k.trusts()
	k.leaving = k.tell(history.Event{Kind: history.Released})
	err := k.grip.Unlock(ctx)
	if errors.Is(err, fairlock.ErrLost) {
		k.tell(history.Event{Kind: history.Lost, Err: err.Error()})
	}
	return err
}
