package fence_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/fairlocktest"
	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/internal/replset"
)

var ctx = context.Background()

// server is the replica set of the examples. It is started by the first that wants it, and ends with the tests.
var server struct {
	set *replset.Set
	uri string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if server.set != nil {
		if err := server.set.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "fence: stop:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// collection is an empty collection of the user's own.
func collection(name string) (coll *mongo.Collection, end func()) {
	if server.uri == "" {
		var err error
		if server.uri, server.set, err = replset.FromEnvOrStart(ctx, replset.Options{Members: 1}); err != nil {
			panic(err)
		}
	}
	client, err := mongo.Connect(options.Client().ApplyURI(server.uri))
	if err != nil {
		panic(err)
	}
	db := client.Database(fmt.Sprintf("fence_example_%d", os.Getpid()))
	return db.Collection(name), func() {
		_ = db.Drop(ctx)
		_ = client.Disconnect(ctx)
	}
}

// of is the fence of a token. Here tokens are written down; otherwise they are those of a lock.
func of(token int64) fence.Fence {
	f, err := fence.New(token)
	if err != nil {
		panic(err)
	}
	return f
}

// A holder is paused between having asked whether it holds the lock and its write. When it goes on, the lock is somebody else's, and the
// document refuses the write.
func Example() {
	invoices, end := collection("invoices")
	defer end()
	_, err := invoices.InsertOne(ctx, bson.D{{Key: "_id", Value: 7}, {Key: "state", Value: "open"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Locks in memory, so that a process can be paused.
	srv := fairlocktest.NewServer()
	cfg := &fairlock.Config{TTL: time.Second}
	paused, next := srv.Process(&testing.T{}, cfg), srv.Process(&testing.T{}, cfg)
	defer paused.Close(ctx)
	defer next.Close(ctx)

	write := func(lock *fairlock.Lock, state string) error {
		f, err := fence.New(lock.Token())
		if err != nil {
			return err
		}
		_, err = f.UpdateOne(ctx, invoices, bson.D{{Key: "_id", Value: 7}}, bson.D{{Key: "$set", Value: bson.D{{Key: "state", Value: state}}}})
		return err
	}

	late, err := paused.Lock(ctx, "invoices")
	if err != nil {
		fmt.Println(err)
		return
	}
	paused.Pause()
	lock, err := next.Lock(ctx, "invoices") // when the lease of the other is over
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the next holder:", write(lock, "paid"))
	fmt.Println("the paused one believes that it holds:", late.Err() == nil)
	fmt.Println("its write is refused:", errors.Is(write(late, "reminded"), fence.ErrStale))
	paused.Resume()
	fmt.Println("by now it knows:", errors.Is(late.Err(), fairlock.ErrLost))
	_ = lock.Unlock(ctx)

	var invoice struct{ State string }
	err = invoices.FindOne(ctx, bson.D{{Key: "_id", Value: 7}}).Decode(&invoice)
	fmt.Println(invoice.State, err)
	// Output:
	// the next holder: <nil>
	// the paused one believes that it holds: true
	// its write is refused: true
	// by now it knows: true
	// paid <nil>
}

// All forms of a write leave the token in the document, and refuse an older one.
func ExampleFence_UpdateOne() {
	coll, end := collection("stock")
	defer end()
	bolts := bson.D{{Key: "_id", Value: "bolts"}}

	f := of(8) // fence.New(lock.Token())
	// An update with operators; with upsert the document may be missing.
	_, err := f.UpdateOne(ctx, coll, bolts, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 5}}}}, options.UpdateOne().SetUpsert(true))
	fmt.Println("operators:", err)
	// A pipeline.
	_, err = f.UpdateOne(ctx, coll, bolts, mongo.Pipeline{{{Key: "$set", Value: bson.D{{Key: "twice", Value: bson.D{{Key: "$add", Value: bson.A{"$n", "$n"}}}}}}}})
	fmt.Println("pipeline:", err)
	// A whole document.
	_, err = f.ReplaceOne(ctx, coll, bolts, bson.D{{Key: "n", Value: 3}})
	fmt.Println("replace:", err)
	// Nothing but the token: from here on no earlier holder changes the document.
	_, err = f.UpdateOne(ctx, coll, bolts, mongo.Pipeline{})
	fmt.Println("touch:", err)

	old := of(7)
	_, err = old.DeleteOne(ctx, coll, bolts)
	fmt.Println(err)
	_, err = f.DeleteOne(ctx, coll, bolts)
	fmt.Println("delete:", err)
	// Output:
	// operators: <nil>
	// pipeline: <nil>
	// replace: <nil>
	// touch: <nil>
	// fairlock: stale token 7: the document was written by a later holder, with token 8
	// delete: <nil>
}

// In a transaction a stale write aborts all of it.
func ExampleFence_UpdateOne_transaction() {
	coll, end := collection("accounts")
	defer end()
	_, err := coll.InsertMany(ctx, []any{bson.D{{Key: "_id", Value: 4}, {Key: "n", Value: 10}}, bson.D{{Key: "_id", Value: 9}, {Key: "n", Value: 10}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	move := func(f fence.Fence, n int) error {
		session, err := coll.Database().Client().StartSession()
		if err != nil {
			return err
		}
		defer session.EndSession(ctx)
		_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
			for id, by := range map[int]int{4: -n, 9: n} {
				_, err := f.UpdateOne(ctx, coll, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: by}}}})
				if err != nil {
					return nil, err
				}
			}
			return nil, nil
		})
		return err
	}
	fmt.Println(move(of(8), 3))
	fmt.Println(errors.Is(move(of(7), 5), fence.ErrStale))
	var account struct{ N int }
	err = coll.FindOne(ctx, bson.D{{Key: "_id", Value: 4}}).Decode(&account)
	fmt.Println(account.N, err)
	// Output:
	// <nil>
	// true
	// 7 <nil>
}

// A bulk write is not told from a stale one when it matches nothing; the fence gives filter and update, and the program compares.
func ExampleFence_Filter() {
	coll, end := collection("stock")
	defer end()
	_, err := coll.InsertMany(ctx, []any{bson.D{{Key: "_id", Value: "bolts"}, {Key: "fence", Value: int64(9)}}, bson.D{{Key: "_id", Value: "nuts"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	f := of(8)
	update, err := f.Update(bson.D{{Key: "$set", Value: bson.D{{Key: "counted", Value: true}}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	all := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{"bolts", "nuts"}}}}}
	res, err := coll.UpdateMany(ctx, f.Filter(all), update)
	fmt.Println(res.MatchedCount, "of 2", err)
	// Output: 1 of 2 <nil>
}
