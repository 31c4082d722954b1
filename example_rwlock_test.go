package fairlock_test

import (
	"errors"
	"fmt"

	"github.com/fairlock/fairlock"
)

// Readers hold it together. A writer waits for those before it, and those who come later wait for the writer.
func ExampleRWLock() {
	a, b, end := processes(nil)
	defer end()

	prices, err := a.RWLock("prices")
	if err != nil {
		fmt.Println(err)
		return
	}
	elsewhere, _ := b.RWLock("prices")
	reads, err := prices.RLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	beside, err := elsewhere.TryRLock(ctx)
	fmt.Println("two read:", err == nil)
	_ = beside.Unlock(ctx)

	writes := make(chan *fairlock.Lock)
	go func() {
		lock, _ := elsewhere.Lock(ctx)
		writes <- lock
	}()
	inLine(a, "prices", 1)
	_, err = prices.TryRLock(ctx)
	fmt.Println("a reader who comes later waits:", errors.Is(err, fairlock.ErrBusy))

	_, err = prices.Lock(reads.Context()) // would wait for itself
	fmt.Println("no upgrade:", errors.Is(err, fairlock.ErrUpgrade))

	_ = reads.Unlock(ctx)
	lock := <-writes
	fmt.Println("the writer's token is larger:", lock.Token() > reads.Token())
	_ = lock.Unlock(ctx)
	// Output:
	// two read: true
	// a reader who comes later waits: true
	// no upgrade: true
	// the writer's token is larger: true
}
