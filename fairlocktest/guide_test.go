package fairlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/fairlocktest"
)

// What follows is the code of docs/fairlocktest.md: a program as users write them, and its tests.

// report writes pages while it holds the lock of its name, and stops when it has lost it.
func report(ctx context.Context, m *fairlock.Manager, write func(token int64, page int) error) error {
	lock, err := m.Lock(ctx, "report")
	if err != nil {
		return err
	}
	defer lock.Unlock(context.WithoutCancel(ctx))
	for page := 1; page <= 5; page++ {
		if err := lock.Err(); err != nil {
			return fmt.Errorf("given up before page %d: %w", page, err)
		}
		if err := write(lock.Token(), page); err != nil {
			return err
		}
	}
	return nil
}

func TestReportStopsWhenItsLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := fairlocktest.NewServer()
		first, second := srv.Process(t, nil), srv.Process(t, nil)
		var mu sync.Mutex // guards pages
		var pages []string
		writer := func(name string) func(int64, int) error {
			return func(_ int64, page int) error {
				if name == "first" && page == 3 {
					first.Cut() // its database is gone from now on
				}
				time.Sleep(time.Minute) // a page takes a minute, which passes at once
				mu.Lock()
				defer mu.Unlock()
				pages = append(pages, fmt.Sprint(name, " ", page))
				return nil
			}
		}
		took := make(chan error, 1)
		go func() { took <- report(t.Context(), first.Manager, writer("first")) }()
		synctest.Wait() // it writes its first page

		err := report(t.Context(), second.Manager, writer("second")) // waits, and takes over
		if err != nil {
			t.Error(err)
		}
		if err := <-took; !errors.Is(err, fairlock.ErrLost) {
			t.Errorf("the first should have noticed: %v", err)
		}
		want := "first 1, first 2, first 3, second 1, second 2, second 3, second 4, second 5"
		if got := strings.Join(pages, ", "); got != want {
			t.Errorf("pages: %s", got)
		}
	})
}

func TestOnlyTheLastOwnerWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := fairlocktest.NewServer()
		paused, next := srv.Process(t, nil), srv.Process(t, nil)
		newest := int64(0)
		save := func(token int64) error { // what the database of the program does with a token
			if token < newest {
				return errors.New("stale")
			}
			newest = token
			return nil
		}

		late, err := paused.Lock(t.Context(), "account 7")
		if err != nil {
			t.Fatal(err)
		}
		paused.Pause()
		lock, err := next.Lock(t.Context(), "account 7") // when the lease of the other is over
		if err != nil {
			t.Fatal(err)
		}
		if err := save(lock.Token()); err != nil {
			t.Error(err)
		}
		// The paused one still believes in its lock, and writes.
		if late.Err() != nil || save(late.Token()) == nil {
			t.Error("a late write came through")
		}
		paused.Resume()
		if !errors.Is(late.Err(), fairlock.ErrLost) {
			t.Error("it should know by now")
		}
	})
}

func TestBusyIsToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := fairlocktest.NewServer()
		a, b := srv.Manager(t, nil), srv.Manager(t, nil)
		lock, err := a.Lock(t.Context(), "token")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = b.Lock(t.Context(), "token", fairlock.MaxWait(5*time.Second))
		if !errors.Is(err, fairlock.ErrWaitLimit) {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took != 5*time.Second { // exactly: time is the bubble's
			t.Errorf("after %v", took)
		}
		if err := lock.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := fairlocktest.NewServer()
		holder := srv.Manager(t, nil)
		lock, err := holder.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		var order []int
		for i := range 20 {
			m := srv.Manager(t, nil)
			go func() {
				err := m.Do(t.Context(), "x", func(context.Context) error {
					order = append(order, i) // one at a time
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait() // it stands in line
		}
		info, err := holder.Inspect(t.Context(), "x")
		if err != nil || len(info.Waiters) != 20 {
			t.Errorf("%+v, %v", info, err)
		}
		if err := lock.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		for i, who := range order {
			if i != who {
				t.Errorf("order: %v", order)
				break
			}
		}
		if len(order) != 20 {
			t.Errorf("%d of 20", len(order))
		}
	})
}

func TestContention(t *testing.T) {
	srv := fairlocktest.NewServer() // in real time: goroutines race as they do in production
	stock := 1000
	done := make(chan error)
	for range 4 {
		m := srv.Manager(t, nil)
		for range 5 {
			go func() {
				for range 50 {
					err := m.Do(t.Context(), "stock", func(context.Context) error {
						stock-- // the race detector says if two do so at the same time
						return nil
					})
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
	}
	for range 20 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if stock != 0 {
		t.Errorf("stock is %d", stock)
	}
}

// TestGuide: each block of code in the guide is in this file, but for its indentation, and so compiles and is run.
func TestGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/fairlocktest.md")
	require.NoError(t, err)
	code, err := os.ReadFile("guide_test.go")
	require.NoError(t, err)
	indent := regexp.MustCompile(`(?m)^\t+`)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(guide, -1)
	require.Len(t, blocks, 7)
	for _, block := range blocks {
		require.Contains(t, indent.ReplaceAllString(string(code), ""), indent.ReplaceAllString(string(block[1]), ""))
	}
}

// TestImports: users' tests get nothing with this package that they do not have with fairlock.
func TestImports(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	const self = "github.com/fairlock/fairlock"
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, imp := range f.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			require.NoError(t, err)
			if strings.Contains(path, ".") {
				require.Contains(t, []string{self, self + "/internal/memstore", self + "/internal/parts"}, path, file)
			}
		}
	}
}
