package fairlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/fairlocktest"
)

// In a test this is its own t, and the managers are closed with it.
var t = &testing.T{}

// One process is enough for most unit tests.
func ExampleNew() {
	m := fairlocktest.New(t, nil)
	defer m.Close(context.Background()) // done by the test otherwise
	err := m.Do(context.Background(), "invoices", func(context.Context) error {
		fmt.Println("alone with the invoices")
		return nil
	})
	fmt.Println(err)
	// Output:
	// alone with the invoices
	// <nil>
}

// Two processes that share locks: what one holds, the other finds busy.
func ExampleServer_Manager() {
	ctx := context.Background()
	srv := fairlocktest.NewServer()
	a, b := srv.Manager(t, nil), srv.Manager(t, nil)
	defer a.Close(ctx)
	defer b.Close(ctx)

	lock, _ := a.Lock(ctx, "nightly report")
	_, err := b.TryLock(ctx, "nightly report")
	fmt.Println(errors.Is(err, fairlock.ErrBusy))
	_ = lock.Unlock(ctx)
	lock, err = b.TryLock(ctx, "nightly report")
	fmt.Println(err, lock.Err())
	// Output:
	// true
	// <nil> <nil>
}

// Suspend loses what a process holds, at once and also outside of a bubble.
func ExampleProcess_Suspend() {
	ctx := context.Background()
	p := fairlocktest.NewServer().Process(t, &fairlock.Config{TTL: time.Second})
	defer p.Close(ctx)

	lock, _ := p.Lock(ctx, "x")
	p.Suspend(time.Minute)
	var lost *fairlock.LostError
	if errors.As(lock.Err(), &lost) {
		fmt.Println(lost.Reason)
	}
	// Output: lease not renewed in time
}

// Calls that fail: fairlock repeats them, and says why when the caller's time is over.
func ExampleProcess_Fail() {
	p := fairlocktest.NewServer().Process(t, nil)
	defer p.Close(context.Background())

	p.Fail(errors.New("no route to host"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := p.Lock(ctx, "x")
	fmt.Println(errors.Is(err, context.DeadlineExceeded))

	p.Heal()
	lock, err := p.Lock(context.Background(), "x")
	fmt.Println(err, lock.Err())
	// Output:
	// true
	// <nil> <nil>
}

// A process that is killed gives nothing back. Others get its locks when its lease is over: here in a second, in a bubble of testing/synctest at once.
func ExampleProcess_Kill() {
	ctx := context.Background()
	srv := fairlocktest.NewServer()
	cfg := &fairlock.Config{TTL: time.Second}
	dead, alive := srv.Process(t, cfg), srv.Process(t, cfg)
	defer alive.Close(ctx)

	lost, _ := dead.Lock(ctx, "x")
	dead.Kill()
	lock, err := alive.Lock(ctx, "x")
	fmt.Println(err, lock.Token() > lost.Token())
	// Output: <nil> true
}
