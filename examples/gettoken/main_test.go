package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/examples/internal/memory"
)

// shelf is a store in memory, for several processes.
type shelf struct {
	mu     sync.Mutex
	token  token
	holder int64
}

func (s *shelf) Load(context.Context) (token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token, nil
}

func (s *shelf) Save(_ context.Context, t token, holder int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if holder < s.holder {
		return errors.New("stale")
	}
	s.token, s.holder = t, holder
	return nil
}

// crowd sends n requests to the processes in turn, and counts the answers by status.
func crowd(n int, processes ...*service) (count map[int]int, bodies map[string]bool) {
	count, bodies = map[int]int{}, map[string]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			w := httptest.NewRecorder()
			processes[i%len(processes)].ServeHTTP(w, httptest.NewRequest("GET", "/get_token", nil))
			mu.Lock()
			defer mu.Unlock()
			count[w.Code]++
			bodies[w.Body.String()+w.Header().Get("Retry-After")] = true
		})
	}
	wg.Wait()
	return count, bodies
}

// TestOneRefresh: 200 requests at two processes find the token expired. It is refreshed once, and all are served.
func TestOneRefresh(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		var refreshes atomic.Int64
		s := &shelf{}
		refresh := func(context.Context) (token, error) {
			n := refreshes.Add(1)
			time.Sleep(2 * time.Second)
			return token{fmt.Sprint("token ", n), time.Now().Add(time.Minute)}, nil
		}
		one := &service{process(), s, refresh, 5 * time.Second}
		two := &service{process(), s, refresh, 5 * time.Second}
		for round := int64(1); round <= 3; round++ {
			count, bodies := crowd(200, one, two)
			require.Equal(t, map[int]int{200: 200}, count)
			require.Len(t, bodies, 1, "all have the same")
			require.Equal(t, round, refreshes.Load())
			time.Sleep(time.Minute)
		}
	})
}

// TestBusy: the third party takes too long. Who waits is told in time, and does not ask it too.
func TestBusy(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		var refreshes atomic.Int64
		s := &service{process(), &shelf{}, func(context.Context) (token, error) {
			refreshes.Add(1)
			time.Sleep(20 * time.Second)
			return token{"late", time.Now().Add(time.Minute)}, nil
		}, 5 * time.Second}
		began := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			count, _ := crowd(1, s)
			require.Equal(t, map[int]int{200: 1}, count)
		}()
		time.Sleep(time.Second)
		count, bodies := crowd(199, s)
		require.Equal(t, map[int]int{503: 199}, count)
		require.Equal(t, map[string]bool{"Server is busy\n1": true}, bodies)
		require.Equal(t, 6*time.Second, time.Since(began))
		<-done
		require.EqualValues(t, 1, refreshes.Load())
		count, _ = crowd(10, s)
		require.Equal(t, map[int]int{200: 10}, count)
	})
}

// TestThirdPartyFails: the next in line tries, and nobody is served something old.
func TestThirdPartyFails(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		var n atomic.Int64
		s := &service{process(), &shelf{}, func(context.Context) (token, error) {
			if n.Add(1) == 1 {
				return token{}, errors.New("third party is down")
			}
			return token{"second", time.Now().Add(time.Minute)}, nil
		}, 5 * time.Second}
		count, _ := crowd(10, s)
		require.Equal(t, map[int]int{502: 1, 200: 9}, count)
	})
}

// TestThirdPartyHangs: a refresh has a limit, and the next in line tries.
func TestThirdPartyHangs(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		var n atomic.Int64
		s := &service{process(), &shelf{}, func(ctx context.Context) (token, error) {
			if n.Add(1) == 1 {
				<-ctx.Done()
				return token{}, context.Cause(ctx)
			}
			return token{"second", time.Now().Add(time.Minute)}, nil
		}, time.Minute}
		began := time.Now()
		count, _ := crowd(10, s)
		require.Equal(t, map[int]int{502: 1, 200: 9}, count)
		require.GreaterOrEqual(t, time.Since(began), mostRefresh)
		require.Less(t, time.Since(began), mostRefresh+5*time.Second)
	})
}
