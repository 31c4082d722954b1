package integration

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/clock"
)

// The figures of the README, each beside a floor that is taken in the same run, alternating with it:
//
//	go test -run - -bench . -benchtime 300x ./integration

// floor is one majority findAndModify, by a client of its own.
type floor struct{ coll *mongo.Collection }

func newFloor(b *bed) floor {
	return floor{connect(b.t, b.uri).Database(b.db.Name()).Collection("floor")}
}

func (f floor) once(t testing.TB) time.Duration {
	began := time.Now()
	err := f.coll.FindOneAndUpdate(context.Background(), bson.D{{Key: "_id", Value: 1}},
		bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}, options.FindOneAndUpdate().SetUpsert(true)).Err()
	if err != nil && err != mongo.ErrNoDocuments {
		require.NoError(t, err)
	}
	return time.Since(began)
}

func quantile(all []time.Duration, q float64) time.Duration {
	slices.Sort(all)
	return all[int(q*float64(len(all)-1))]
}

func reportRatio(b *testing.B, what string, got, floor []time.Duration) {
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		g, f := quantile(got, q.at), quantile(floor, q.at)
		b.ReportMetric(float64(g)/float64(f), fmt.Sprintf("%s-%s/floor", what, q.name))
		b.ReportMetric(float64(f.Microseconds())/1000, "floor-"+q.name+"-ms")
	}
}

// BenchmarkUncontendedPair is Lock and Unlock with nobody else about.
func BenchmarkUncontendedPair(b *testing.B) {
	bed := newBed(b)
	m := bed.manager(fairlock.Config{})
	f := newFloor(bed)
	ctx := context.Background()
	pair := func() {
		l, err := m.Lock(ctx, "x")
		require.NoError(b, err)
		require.NoError(b, l.Unlock(ctx))
	}
	for range 50 {
		pair()
		f.once(b)
	}
	var pairs, floors []time.Duration
	for b.Loop() {
		floors = append(floors, f.once(b))
		began := time.Now()
		pair()
		pairs = append(pairs, time.Since(began))
	}
	reportRatio(b, "pair", pairs, floors)
}

// BenchmarkHandOff is from the beginning of Unlock in one process to the grant in another that waits, with an idle gap before each,
// as before each measurement of the floor.
func BenchmarkHandOff(b *testing.B) {
	bed := newBed(b)
	m := bed.manager(fairlock.Config{})
	f := newFloor(bed)
	ctx := context.Background()
	const gap = 10 * time.Millisecond
	w := bed.startWorker(workerConfig{TTL: 30 * time.Second})
	var hands, floors []time.Duration
	id := 0
	for b.Loop() {
		l, err := m.Lock(ctx, "x")
		require.NoError(b, err)
		id++
		w.order("lock", id, "x")
		time.Sleep(2 * gap) // the worker is in line, and the machine quiet
		began := clock.System.Now()
		require.NoError(b, l.Unlock(ctx))
		granted := w.await("granted")
		hands = append(hands, granted.At.Sub(began))
		w.order("unlock", id, "")
		require.Empty(b, w.await("unlocked").Err)
		time.Sleep(gap)
		floors = append(floors, f.once(b))
	}
	reportRatio(b, "handoff", hands, floors)
	w.order("close", 0, "")
	require.Empty(b, w.await("closed").Err)
}

// BenchmarkBlockedTenThousand is 10,000 callers of one process who wait for a lock that is held: the CPU of the process, for ten
// seconds.
func BenchmarkBlockedTenThousand(b *testing.B) {
	bed := newBed(b)
	m, other := bed.manager(fairlock.Config{}), bed.manager(fairlock.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	held, err := other.Lock(ctx, "x")
	require.NoError(b, err)
	var wg sync.WaitGroup
	const n = 10_000
	for range n {
		wg.Go(func() { _, _ = m.Lock(ctx, "x") })
	}
	eventually(b, "all in line", func() bool {
		info, err := m.Inspect(ctx, "x")
		s := m.Stats()
		return err == nil && info.LastToken-held.Token() == n && s.Streaming && s.TicketsWritten == s.Enqueues
	})
	const window = 10 * time.Second
	for b.Loop() {
		before := cpu(b)
		time.Sleep(window)
		b.ReportMetric(100*float64(cpu(b)-before)/float64(window), "%cpu")
	}
	cancel()
	wg.Wait()
	require.NoError(b, held.Unlock(context.Background()))
}

func cpu(t testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCombining is 64 callers of one process who take one lock in turn: acquisitions in the time of one floor.
func BenchmarkCombining(b *testing.B) {
	bed := newBed(b)
	m := bed.manager(fairlock.Config{})
	f := newFloor(bed)
	ctx := context.Background()
	var floors []time.Duration
	for range 100 {
		floors = append(floors, f.once(b))
	}
	const goroutines, rounds = 64, 50
	var took time.Duration
	n := 0
	for b.Loop() {
		began := time.Now()
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range rounds {
					if err := m.Do(ctx, "x", func(context.Context) error { return nil }); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		took += time.Since(began)
		n += goroutines * rounds
	}
	b.ReportMetric(float64(n)*float64(quantile(floors, 0.5))/float64(took), "acquisitions/floor")
}

// BenchmarkProcesses is one lock that is taken and left without a pause by many processes, one caller each: acquisitions a
// second, and what they cost. FAIRLOCK_BENCH_PROCESSES is the numbers of processes, else 2 and 8; FAIRLOCK_BENCH_TICKET_DELAY
// their Config.TicketDelay, else the default.
func BenchmarkProcesses(b *testing.B) {
	sizes := os.Getenv("FAIRLOCK_BENCH_PROCESSES")
	if sizes == "" {
		sizes = "2 8"
	}
	var delay time.Duration
	if s := os.Getenv("FAIRLOCK_BENCH_TICKET_DELAY"); s != "" {
		var err error
		delay, err = time.ParseDuration(s)
		require.NoError(b, err)
	}
	for _, size := range strings.Fields(sizes) {
		n, err := strconv.Atoi(size)
		require.NoError(b, err)
		b.Run(size, func(b *testing.B) {
			bed := newBed(b)
			f := newFloor(bed)
			var floors []time.Duration
			for range 100 {
				floors = append(floors, f.once(b))
			}
			var workers []*worker
			for range n {
				workers = append(workers, bed.startWorker(workerConfig{TTL: 30 * time.Second, TicketDelay: delay}))
			}
			loop := func(d time.Duration) (total looped) {
				for _, w := range workers {
					require.NoError(b, w.in.Encode(order{Op: "loop", Name: "x", For: d}))
				}
				for _, w := range workers {
					r := w.await("looped")
					require.Empty(b, r.Err)
					total.Waits = append(total.Waits, r.Loop.Waits...)
					s := &total.Stats
					s.Events += r.Loop.Stats.Events
					s.Reads += r.Loop.Stats.Reads
					s.StreamsOpened += r.Loop.Stats.StreamsOpened
				}
				return total
			}
			loop(2 * time.Second) // warm
			const window = 8 * time.Second
			for b.Loop() {
				began := time.Now()
				total := loop(window)
				took := time.Since(began).Seconds()
				acq := float64(len(total.Waits))
				b.ReportMetric(acq/took, "acq/s")
				b.ReportMetric(acq/took*quantile(floors, 0.5).Seconds(), "acq/floor")
				b.ReportMetric(float64(quantile(total.Waits, 1))/float64(quantile(total.Waits, 0.5)), "maxwait/p50")
				b.ReportMetric(float64(total.Stats.Events)/acq, "events/acq")
				b.ReportMetric(float64(total.Stats.Reads)/acq, "reads/acq")
				b.ReportMetric(float64(total.Stats.StreamsOpened)/acq, "opened/acq")
			}
			for _, w := range workers {
				w.order("close", 0, "")
			}
			for _, w := range workers {
				require.Empty(b, w.await("closed").Err)
			}
		})
	}
}
