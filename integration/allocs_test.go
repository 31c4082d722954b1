package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/queue"
)

// mostAllocs is how many allocations fairlock may add to those of the two database calls of an uncontended Lock and Unlock: what it
// adds now. docs/performance.md says where they come from.
const mostAllocs = 33

// pairs are an uncontended Lock and Unlock, and the two database calls in it made directly.
func pairs(b *bed) (whole, bare func()) {
	// With so long a lease nothing is renewed and nobody looked at meanwhile.
	m := b.manager(fairlock.Config{TTL: time.Hour})
	ctx := context.Background()
	whole = func() {
		l, err := m.Lock(ctx, "x")
		require.NoError(b.t, err)
		require.NoError(b.t, l.Unlock(ctx))
	}
	whole()
	// By the same slot, so that the commands are of the same length.
	var doc struct {
		Last map[string]bson.Raw `bson:"last"`
	}
	require.NoError(b.t, b.coll("locks").FindOne(ctx, bson.D{{Key: "_id", Value: "x"}}).Decode(&doc))
	var owner uint64
	for slot := range doc.Last {
		_, err := fmt.Sscanf(slot, "s%d", &owner)
		require.NoError(b.t, err)
	}
	q := queue.Open(connect(b.t, b.uri).Database(b.db.Name()), "fairlock.", true)
	// A deadline makes work for the driver, so these calls have one too, and making it is fairlock's.
	limited, cancel := context.WithTimeout(ctx, time.Hour)
	b.t.Cleanup(cancel)
	bare = func() {
		p, err := q.Enqueue(limited, "y", queue.Mutex, queue.Arrival{Owner: owner, Mark: rand.Int64(), Units: 1, Grace: time.Hour})
		require.NoError(b.t, err)
		done, err := q.SettleFront(limited, "y", queue.Mutex, p.Range, p.Arrival)
		require.NoError(b.t, err)
		require.True(b.t, done)
	}
	bare()
	return whole, bare
}

// allocs returns the allocations of whole and bare for each call: medians over many short rounds that alternate. The whole process
// is counted, since goroutines of fairlock's and of the driver's take part. What has nothing to do with either call, the driver's
// heartbeats above all, comes a few times in ten seconds and so in few rounds, which the median passes over. Nothing
// is collected meanwhile, for that would empty the driver's pools.
func allocs(whole, bare func()) (wholes, bares float64) {
	const rounds, calls = 61, 10
	count := func(do func()) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			do()
		}
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs-before.Mallocs) / calls
	}
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var w, b []float64
	for range rounds {
		w, b = append(w, count(whole)), append(b, count(bare))
	}
	slices.Sort(w)
	slices.Sort(b)
	return w[rounds/2], b[rounds/2]
}

// TestAllocs bounds what fairlock allocates for an uncontended pair. It is not parallel, so that no other test runs
// meanwhile: those that are come after all that are not.
func TestAllocs(t *testing.T) {
	whole, bare := allocs(pairs(newBed(t)))
	t.Logf("Lock and Unlock %.1f allocations, the two calls alone %.1f", whole, bare)
	require.Greater(t, bare, 100.0, "the driver's own")
	most := float64(mostAllocs)
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		most += 3 // its sync.Pool loses things at random
	}
	require.LessOrEqual(t, whole-bare, most)
}

// BenchmarkAllocs is the same as figures, and by -memprofile -memprofilerate=1 where they come from.
func BenchmarkAllocs(b *testing.B) {
	do, alone := pairs(newBed(b))
	for b.Loop() {
		whole, bare := allocs(do, alone)
		b.ReportMetric(whole, "pair-allocs")
		b.ReportMetric(bare, "driver-allocs")
		b.ReportMetric(whole-bare, "fairlock-allocs")
	}
}
