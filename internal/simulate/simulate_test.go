package simulate

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/history"
)

var (
	count    = flag.Int64("n", usual(), "how many schedules TestSchedules runs")
	seed     = flag.Int64("seed", 1, "the seed of the first, and the one that TestReplay runs")
	most     = flag.Int("most", 10, "after how many bad schedules TestSchedules gives up")
	plain    = flag.Bool("plain", false, "TestReplay runs the plain plan of the seed; see PlainPlan")
	progress = flag.Duration("progress", 0, "how often TestSchedules says how far it is; 0: never")
)

// usual is how many schedules run where nobody says: with the race detector, which makes them ten times as slow, as many as look for
// races; the others run without it (make test).
func usual() int64 {
	if raceEnabled {
		return 200
	}
	return 2000
}

// One processor, and no collection of garbage in the middle of a schedule: then goroutines run in nearly the same order each time.
func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	debug.SetTraceback("all") // a panic then shows runSeed, and with it the seed
	goleak.VerifyTestMain(m)
}

// runSeed is a frame of its own so that a panic inside a schedule shows its seed, in hexadecimal.
//
//go:noinline
func runSeed(seed int64, plan func(int64) Plan, t *testing.T) Result {
	res := Run(t, plan(seed))
	if seed%64 == 0 {
		runtime.GC()
	}
	return res
}

func TestSchedules(t *testing.T) {
	began := time.Now()
	said := began
	var total sums
	for s := *seed; s < *seed+*count; s++ {
		res := runSeed(s, NewPlan, t)
		total.add(&res)
		if len(res.Violations) > 0 {
			t.Errorf("seed %d: %v\nreplay: go test ./internal/simulate -run TestReplay -count=1 -v -args -seed=%d", s, res.Violations, s)
			if total.bad == *most {
				break
			}
		}
		if *progress > 0 && time.Since(said) >= *progress {
			said = time.Now()
			fmt.Fprintf(os.Stderr, "%s: %s\n", time.Since(began).Round(time.Second), total.per(time.Since(began)))
		}
	}
	if *progress > 0 {
		fmt.Fprintf(os.Stderr, "seeds %d to %d: %s\n", *seed, *seed+int64(total.schedules)-1, total.per(time.Since(began)))
	}
	t.Logf("seeds %d to %d: %s", *seed, *seed+int64(total.schedules)-1, total.per(time.Since(began)))
}

// sums are what schedules came to together.
type sums struct {
	schedules, grants, events, bad int
	took                           time.Duration
}

func (s *sums) add(r *Result) {
	s.schedules++
	s.grants += r.Grants
	s.events += len(r.Events)
	s.took += r.Took
	if len(r.Violations) > 0 {
		s.bad++
	}
}

func (s *sums) per(d time.Duration) string {
	return fmt.Sprintf("%d schedules (%.0f/s), %v of simulated time, %d grants and %d events checked, violations in %d schedules",
		s.schedules, float64(s.schedules)/d.Seconds(), s.took.Round(time.Second), s.grants, s.events, s.bad)
}

// TestReplay runs one schedule. With -v it shows all that happens in it, in order.
func TestReplay(t *testing.T) {
	plan := NewPlan(*seed)
	if *plain {
		plan = PlainPlan(*seed)
	}
	if !testing.Verbose() {
		require.Empty(t, Run(t, plan).Violations)
		return
	}
	fmt.Println(plan)
	require.Empty(t, RunTraced(t, plan, os.Stdout).Violations)
}

// TestFound runs the schedules that have found something, each for what it found.
func TestFound(t *testing.T) {
	for _, f := range found {
		require.Empty(t, runSeed(f.seed, f.plan, t).Violations, "seed %d: %s", f.seed, f.what)
	}
}

// TestSameSeedSameHistory: a schedule can be replayed. The race detector shuffles goroutines that are runnable at the same
// time, so there the histories need not be the same; and without it a preemption by the kernel's clock can still make a difference.
func TestSameSeedSameHistory(t *testing.T) {
	const runs = 100
	same := 0
	for s := range int64(runs) {
		a, b := runSeed(s, NewPlan, t), runSeed(s, NewPlan, t)
		if slices.Equal(a.Events, b.Events) {
			same++
		} else {
			t.Log(s, firstDifference(a.Events, b.Events))
		}
	}
	t.Logf("%d of %d histories are the same in a second run", same, runs)
	if !raceEnabled {
		require.GreaterOrEqual(t, same, runs*95/100)
	}
}

func firstDifference(a, b []history.Event) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("event %d: %+v and %+v", i, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d and %d events", len(a), len(b))
}
