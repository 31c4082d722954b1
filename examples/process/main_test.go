package main

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/examples/internal/memory"
)

// TestOneAtATime: requests for one key are processed one after the other, those for others beside them, and who waits for too long is told.
func TestOneAtATime(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		var mu sync.Mutex
		at := map[string]int{}
		work := func(_ context.Context, key string) error {
			mu.Lock()
			at[key]++
			if at[key] != 1 {
				t.Errorf("%d at a time for key %s", at[key], key)
			}
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			at[key]--
			mu.Unlock()
			return nil
		}
		wait := 2500 * time.Millisecond
		services := []*service{{process(), work, wait, time.Minute}, {process(), work, wait, time.Minute}}
		counts := map[string]map[int]int{"a": {}, "b": {}}
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 10 {
			for key := range counts {
				wg.Go(func() {
					w := httptest.NewRecorder()
					services[i%2].ServeHTTP(w, httptest.NewRequest("POST", "/process?key="+key, nil))
					mu.Lock()
					defer mu.Unlock()
					counts[key][w.Code]++
					if w.Code == 503 && (w.Body.String() != "Unable to acquire lock, please try again later\n" || w.Header().Get("Retry-After") != "2") {
						t.Errorf("503 with %q, %v", w.Body, w.Header())
					}
				})
			}
		}
		wg.Wait()
		require.Equal(t, map[string]map[int]int{"a": {200: 3, 503: 7}, "b": {200: 3, 503: 7}}, counts)
		require.Less(t, time.Since(began), 4*time.Second)
	})
}

// TestTooLong: work that takes longer than it may is ended, and its client is told so.
func TestTooLong(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		s := &service{process(), func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, time.Second, 3 * time.Second}
		began := time.Now()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("POST", "/process?key=a", nil))
		require.Equal(t, 500, w.Code)
		require.Equal(t, "Lock lost while processing\n", w.Body.String())
		require.Equal(t, 3*time.Second, time.Since(began))
		for _, query := range []string{"", "?key=", "?key=%00"} {
			w = httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest("POST", "/process"+query, nil))
			require.Equal(t, 400, w.Code)
		}
	})
}
