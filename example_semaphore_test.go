package fairlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/fairlock"
)

// Three permits: whoever asks for all of them waits for all, and nobody who comes later passes him.
func ExampleSemaphore() {
	a, b, end := processes(nil)
	defer end()

	pool, err := a.Semaphore("connections", 3) // all who use it name the same number
	if err != nil {
		fmt.Println(err)
		return
	}
	two, err := pool.Acquire(ctx, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	elsewhere, _ := b.Semaphore("connections", 3)
	all := make(chan *fairlock.Lock)
	go func() {
		lock, _ := elsewhere.Acquire(ctx, 3)
		all <- lock
	}()
	inLine(a, "connections", 1)

	_, err = pool.TryAcquire(ctx, 1) // one is free, and is kept for who came first
	fmt.Println("busy:", errors.Is(err, fairlock.ErrBusy))

	_ = two.Unlock(ctx)
	lock := <-all
	fmt.Println("units:", lock.Units())
	_ = lock.Unlock(ctx)

	_, err = pool.Acquire(ctx, 4)
	fmt.Println(err)
	// Output:
	// busy: true
	// units: 3
	// fairlock: more units than permits: lock "connections" has 3 permits, 4 are asked for
}

// Units are given back as they are done with. The token stays.
func ExampleLock_Release() {
	a, b, end := processes(nil)
	defer end()

	cores, _ := a.Semaphore("cores", 8)
	lock, err := cores.Acquire(ctx, 6)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := lock.Release(ctx, 4); err != nil { // what is left of the work needs 2
		fmt.Println(err)
		return
	}
	elsewhere, _ := b.Semaphore("cores", 8)
	other, err := elsewhere.TryAcquire(ctx, 6)
	fmt.Println(lock.Units(), other.Units(), err)
	_ = lock.Unlock(ctx) // the last 2
	_ = other.Unlock(ctx)
	// Output: 2 6 <nil>
}

// Permits are changed for all who use the semaphore, whatever number their programs name, and those who now fit go on at once.
func ExampleSemaphore_SetPermits() {
	a, b, end := processes(nil)
	defer end()

	pool, _ := a.Semaphore("connections", 1)
	first, err := pool.Acquire(ctx, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	next := make(chan *fairlock.Lock)
	go func() {
		lock, _ := pool.Acquire(ctx, 1)
		next <- lock
	}()
	inLine(a, "connections", 1)

	operator, _ := b.Semaphore("connections", 1)
	if err := operator.SetPermits(ctx, 2); err != nil {
		fmt.Println(err)
		return
	}
	second := <-next // beside the first
	fmt.Println(first.Err(), second.Err())
	permits, _ := pool.Permits(context.Background())
	fmt.Println(permits)
	_ = first.Unlock(ctx)
	_ = second.Unlock(ctx)
	// Output:
	// <nil> <nil>
	// 2
}
