package simulate

import (
	"math/rand/v2"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/history"
	"github.com/fairlock/fairlock/queue"
)

// acquisitions is how many TestNobodyIsOvertaken makes; the race detector makes each ten times as slow.
func acquisitions() int {
	if raceEnabled {
		return 10_000
	}
	return 100_000
}

// TestNobodyIsOvertaken: random acquisitions of 1 to all permits of one semaphore, from callers in several processes who come again and again.
// No grant is ahead of an earlier arrival for which there was no room yet, whatever each of them asked for; every other one is given back in
// parts.
func TestNobodyIsOvertaken(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // this is one long schedule
	const procs, callers, permits = 4, 6, 10
	usual := ProcPlan{TTL: 30 * time.Second, Margin: 3 * time.Second, TicketDelay: time.Second, OpTimeout: 5 * time.Second}
	plan := Plan{Seed: 1, Locks: []LockPlan{{"sem", queue.Shape{Kind: queue.KindSemaphore, Permits: permits}}}}
	res := Result{Plan: plan}
	var bigs atomic.Int64
	each := (acquisitions() + procs*callers - 1) / (procs * callers)
	synctest.Test(t, func(*testing.T) {
		w := newWorld(&plan, nil)
		for slot := range procs {
			p := w.start(slot+1, slot, usual)
			w.all = append(w.all, p)
			for i := range callers {
				rng := rand.New(rand.NewPCG(uint64(slot), uint64(i)))
				w.jobs.Go(func() {
					for range each {
						j := Job{Units: 1 + rng.Int64N(3), Hold: time.Duration(rng.Int64N(int64(5 * time.Millisecond))), Step: time.Second}
						if rng.IntN(3) == 0 {
							j.Units = 1 + rng.Int64N(permits)
						}
						if rng.IntN(2) == 0 {
							j.Part, j.Step = 1+rng.Int64N(3), 1+j.Hold/2
						}
						if j.Units > permits/2 {
							bigs.Add(1)
						}
						newCaller(p, j).call()
						time.Sleep(time.Duration(rng.Int64N(int64(10 * time.Millisecond))))
					}
				})
			}
		}
		w.jobs.Wait()
		w.end()
		res.Events, res.Violations = w.events, w.bad
	})
	judge(&res)
	require.Empty(t, res.Violations)
	require.Equal(t, each*procs*callers, res.Grants)
	require.Greater(t, bigs.Load(), int64(res.Grants/10))
	waited := 0
	type call struct {
		proc int
		id   int64
	}
	called := map[call]clock.Instant{}
	for _, e := range res.Events {
		switch k := (call{e.Proc, e.Call}); {
		case e.Kind == history.Call:
			called[k] = e.At
		case e.Kind == history.Granted && e.At.Sub(called[k]) > 4*slowest:
			waited++
		}
	}
	require.Greater(t, waited, res.Grants/2, "most had to wait")
	t.Logf("%d acquisitions, %d of more than half of the permits; %d waited for longer than an arrival takes", res.Grants, bigs.Load(), waited)
}

// slowest is the longest that one way of a write takes where nothing goes wrong, but for one in fifty.
const slowest = 4 * time.Millisecond
