package fairlock_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock"
)

// Money goes from one account to another. Whoever moves it the other way takes the same locks in the same order.
func ExampleManager_LockAll() {
	a, b, end := processes(nil)
	defer end()

	both, err := a.LockAll(ctx, []string{"account 9", "account 4"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(both.Names(), both.Err())
	fmt.Println("each has its token:", both.Lock("account 4").Token() > 0 && both.Lock("account 9").Token() > 0)

	_, err = b.LockAll(ctx, []string{"account 4", "account 9"}, fairlock.MaxWait(10*time.Millisecond))
	fmt.Println("not within its time:", errors.Is(err, fairlock.ErrWaitLimit))
	fmt.Println(both.Unlock(ctx))

	_, err = a.LockAll(ctx, []string{"account 4", "account 4"})
	fmt.Println(err)
	// Output:
	// [account 4 account 9] <nil>
	// each has its token: true
	// not within its time: true
	// <nil>
	// fairlock: invalid option: names is "account 4": must not be named twice
}
