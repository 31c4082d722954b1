package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/examples/internal/memory"
)

// TestScrape: two machines, two sites with limits of their own: one page of a site at a time, with its rest after each, and a page that hangs is given up
// at its site's limit without holding the other site up.
func TestScrape(t *testing.T) {
	memory.Run(t, func(t *testing.T, process func() *fairlock.Manager) {
		var mu sync.Mutex
		last := map[string]time.Time{} // end of the fetch before
		at := map[string]int{}
		fetch := func(s site) func(context.Context, string) error {
			return func(ctx context.Context, page string) error {
				mu.Lock()
				at[s.Name]++
				if at[s.Name] != 1 || time.Since(last[s.Name]) < s.Rest {
					t.Errorf("%s %s: %d at a time, %v after the one before", s.Name, page, at[s.Name], time.Since(last[s.Name]))
				}
				mu.Unlock()
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					at[s.Name]--
					last[s.Name] = time.Now()
				}()
				took := time.Second
				if page == "hangs" {
					took = time.Hour
				}
				return rest(ctx, took)
			}
		}
		fast := site{"fast", 5 * time.Second, time.Second, []string{"a", "b", "c"}, time.Minute}
		slow := site{"slow", 20 * time.Second, 3 * time.Second, []string{"a", "hangs", "c"}, time.Minute}
		began := time.Now()
		var wg sync.WaitGroup
		for range 2 {
			m := process()
			wg.Go(func() {
				require.NoError(t, scrape(t.Context(), m, fast, fetch(fast)))
				require.LessOrEqual(t, time.Since(began), 13*time.Second)
			})
			wg.Go(func() {
				err := scrape(t.Context(), m, slow, fetch(slow))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, fairlock.ErrLost)
				require.ErrorContains(t, err, "hangs")
			})
		}
		wg.Wait()
	})
}

// TestSites: pages of one host share its lock, whatever their order, and each site can have its limit.
func TestSites(t *testing.T) {
	t.Parallel()
	all, err := sites([]string{"https://a.example/1?x=y", "5s=http://b.example:8080/", "https://a.example/2", "2s=https://a.example/3"})
	require.NoError(t, err)
	require.Equal(t, []site{
		{"a.example", 2 * time.Second, time.Second, []string{"https://a.example/1?x=y", "https://a.example/2", "https://a.example/3"}, time.Minute},
		{"b.example:8080", 5 * time.Second, time.Second, []string{"http://b.example:8080/"}, time.Minute},
	}, all)
	for bad, rule := range map[string]string{
		"":                      `page is "": must be an http or https URL`,
		"a.example":             `page is "a.example": must be an http or https URL`,
		"5=https://a.example":   `page is "5=https://a.example": must be an http or https URL`,
		"-1s=https://a.example": `limit of "https://a.example" is -1s: must be positive`,
	} {
		_, err := sites([]string{bad})
		require.EqualError(t, err, rule)
	}
	_, err = sites(nil)
	require.EqualError(t, err, "pages: none, must be at least one, as URL or LIMIT=URL")
}
