package fairlock_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock"
)

// A holder that can give way between two steps of its work asks whether somebody wants it to.
func ExampleManager_RequestRelease() {
	a, b, end := processes(nil)
	defer end()

	lock, err := a.Lock(ctx, "reindex")
	if err != nil {
		fmt.Println(err)
		return
	}
	asked := lock.Requested() // from now on this process looks for requests, once a second

	err = b.RequestRelease(ctx, "reindex") // an operator, or a program in a hurry
	fmt.Println(err)

	index := func(int) { time.Sleep(10 * time.Millisecond) }
	for page, working := 0, true; working; page++ {
		select {
		case <-asked:
			fmt.Println("gives way; still held:", lock.Err() == nil)
			working = false
		default:
			index(page)
		}
	}
	fmt.Println(lock.Unlock(ctx))

	err = b.RequestRelease(ctx, "reindex")
	fmt.Println(errors.Is(err, fairlock.ErrNotHeld))
	// Output:
	// <nil>
	// gives way; still held: true
	// <nil>
	// true
}

// A holder that hangs is found by Inspect, which also shows afterwards what was done.
func ExampleManager_ForceUnlock() {
	a, operator, end := processes(&fairlock.Config{TTL: time.Second, TicketDelay: time.Millisecond})
	defer end()

	hangs, err := a.Lock(ctx, "import", fairlock.Label("import of Monday"))
	if err != nil {
		fmt.Println(err)
		return
	}
	holder := seen(operator, "import").Holders[0] // Inspect, once the holder has a ticket
	fmt.Println(holder.Owner.Label)
	err = operator.ForceUnlock(ctx, "import", holder.Token, "hangs since Monday")
	fmt.Println(err)

	next, err := operator.TryLock(ctx, "import") // free at once
	fmt.Println(next.Token() > hangs.Token(), err)

	<-hangs.Context().Done() // told by the next renewal of its lease
	var lost *fairlock.LostError
	if errors.As(hangs.Err(), &lost) {
		fmt.Println("lost:", lost.Reason)
	}
	info, err := operator.Inspect(ctx, "import")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range info.Forced {
		fmt.Println(f.Token == hangs.Token(), f.Reason)
	}
	_ = next.Unlock(ctx)
	// Output:
	// import of Monday
	// <nil>
	// true <nil>
	// lost: unlocked by force
	// true hangs since Monday
}

// After a loss nobody is admitted for a while: what the loser has begun can come to its end.
func ExampleConfig_lockDelay() {
	const delay = 200 * time.Millisecond
	a, b, end := processes(&fairlock.Config{TTL: time.Second, LockDelay: delay})
	defer end()

	began := time.Now()
	lock, err := a.Lock(ctx, "tape drive", fairlock.MaxHold(10*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	<-lock.Context().Done() // the holder does not say that it is done
	next, err := b.Lock(ctx, "tape drive")
	fmt.Println(err, time.Since(began) > delay)

	// Whoever says that he is done has no delay.
	_ = next.Unlock(ctx)
	next, err = a.TryLock(ctx, "tape drive")
	fmt.Println(err, next.Unlock(ctx))
	// Output:
	// <nil> true
	// <nil> <nil>
}
