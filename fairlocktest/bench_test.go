package fairlocktest_test

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/fairlock/fairlock/fairlocktest"
)

// BenchmarkAcquire is Lock and Unlock of a free lock: by one goroutine; by 64, each with a lock of its own; by 64 that wait in one line.
func BenchmarkAcquire(b *testing.B) {
	for _, c := range []struct {
		name       string
		goroutines int
		lock       func(int64) string
	}{
		{"1", 1, func(int64) string { return "x" }},
		{"64", 64, func(g int64) string { return "x" + strconv.FormatInt(g, 10) }},
		{"64InLine", 64, func(int64) string { return "x" }},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := fairlocktest.New(b, nil)
			ctx := context.Background()
			var g atomic.Int64
			b.ReportAllocs()
			acquire := func(pb *testing.PB) {
				name := c.lock(g.Add(1))
				for pb.Next() {
					l, err := m.Lock(ctx, name)
					if err == nil {
						err = l.Unlock(ctx)
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			}
			if c.goroutines == 1 {
				for b.Loop() {
					l, err := m.Lock(ctx, "x")
					if err == nil {
						err = l.Unlock(ctx)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			} else {
				b.SetParallelism(c.goroutines / max(1, parallel()))
				b.RunParallel(acquire)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acquisitions/s")
		})
	}
}

// parallel is what RunParallel multiplies the number of goroutines by.
func parallel() int { return runtime.GOMAXPROCS(0) }
