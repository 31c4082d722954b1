package fairlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/fairlocktest"
)

// processes are two that share a database in memory (package fairlocktest). Programs have one manager each, made by fairlock.New.
func processes(cfg *fairlock.Config) (a, b *fairlock.Manager, end func()) {
	t, srv := &testing.T{}, fairlocktest.NewServer()
	a, b = srv.Manager(t, cfg), srv.Manager(t, cfg)
	return a, b, func() {
		_ = a.Close(ctx)
		_ = b.Close(ctx)
	}
}

// inLine returns when n calls wait for a lock.
func inLine(m *fairlock.Manager, name string, n int) {
	for {
		if info, err := m.Inspect(ctx, name); err == nil && len(info.Waiters) == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// seen returns what is known of a lock when its holder is known.
func seen(m *fairlock.Manager, name string) *fairlock.LockInfo {
	for {
		if info, err := m.Inspect(ctx, name); err == nil && len(info.Holders) > 0 && info.Holders[0].Owner != nil {
			return info
		}
		time.Sleep(time.Millisecond)
	}
}

// A lock is asked for before each step that must not be taken without it.
func ExampleManager_Lock() {
	a, b, end := processes(nil)
	defer end()

	lock, err := a.Lock(ctx, "invoices", fairlock.MaxWait(30*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, step := range []string{"read", "write"} {
		if err := lock.Err(); err != nil { // lost: somebody else may have gone on
			fmt.Println(err)
			return
		}
		fmt.Println(step)
	}
	_, err = b.TryLock(ctx, "invoices")
	fmt.Println("busy:", errors.Is(err, fairlock.ErrBusy))
	fmt.Println("given back:", lock.Unlock(ctx) == nil)
	// Output:
	// read
	// write
	// busy: true
	// given back: true
}

// Under the context of a lock the same lock is refused: the call could only wait for itself.
func ExampleLock_Context() {
	m, _, end := processes(nil)
	defer end()

	err := m.Do(ctx, "invoices", func(ctx context.Context) error {
		_, err := m.Lock(ctx, "invoices")
		return err
	})
	fmt.Println(errors.Is(err, fairlock.ErrReentrant))
	// Output: true
}
