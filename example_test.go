package fairlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock"
)

// The examples need a server and are compiled here; examples/quickstart is run by a test.
var (
	ctx = context.Background()
	db  *mongo.Database
	m   *fairlock.Manager
)

// One manager serves a whole program. Setup needs more privileges than the rest, and only once.
func ExampleNew() {
	m, err := fairlock.New(ctx, db, &fairlock.Config{Label: "invoice worker"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close(ctx)
	if err := m.Setup(ctx); err != nil {
		fmt.Println(err)
	}
}

// Do cannot forget the release, and tells fn when the lock is lost.
func ExampleManager_Do() {
	err := m.Do(ctx, "invoices", func(ctx context.Context) error {
		return db.Client().Ping(ctx, nil) // work that ends with ctx
	}, fairlock.MaxWait(30*time.Second))
	switch {
	case errors.Is(err, fairlock.ErrWaitLimit):
		fmt.Println("others are busy with it, try again later")
	case errors.Is(err, fairlock.ErrLost):
		fmt.Println("somebody else may have gone on; what was done must be checked")
	}
}

// TryLock is for work that somebody else does just as well.
func ExampleManager_TryLock() {
	lock, err := m.TryLock(ctx, "nightly report")
	if errors.Is(err, fairlock.ErrBusy) {
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Unlock(ctx)
}

// Before a step that must not be taken without the lock, ask. Where even a paused process must do no harm, let the data refuse
// an old token: then no pause between Err and the write matters.
func ExampleLock_Token() {
	lock, err := m.Lock(ctx, "account 7")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Unlock(ctx)
	if err := lock.Err(); err != nil {
		return
	}
	res, err := db.Collection("accounts").UpdateOne(ctx,
		bson.D{{Key: "_id", Value: 7}, {Key: "token", Value: bson.D{{Key: "$lte", Value: lock.Token()}}}},
		bson.D{{Key: "$inc", Value: bson.D{{Key: "balance", Value: 10}}}, {Key: "$set", Value: bson.D{{Key: "token", Value: lock.Token()}}}})
	if err == nil && res.MatchedCount == 0 {
		fmt.Println("a later holder has been here")
	}
}

// A hold with a limit, moved on while the work makes progress.
func ExampleLock_Extend() {
	lock, err := m.Lock(ctx, "crawl example.org", fairlock.MaxHold(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Unlock(ctx)
	for range 10 {
		if err := lock.Extend(time.Minute); err != nil {
			return // lost
		}
	}
}

// Who holds, and who waits in which order.
func ExampleManager_Inspect() {
	info, err := m.Inspect(ctx, "invoices")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range info.Waiters {
		if w.Owner != nil {
			fmt.Println(w.Position, w.Owner.Label, w.Owner.Host, w.Owner.Age)
		}
	}
}
