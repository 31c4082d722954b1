// Command batch works off a list of chunks on however many machines it runs on. Each chunk is done once, by whoever finds it free; a chunk whose worker has died
// becomes free for another one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/fence"
)

// ledger says what is done. MarkDone refuses a worker that has lost its chunk to another one.
type ledger interface {
	Done(ctx context.Context, chunk string) (bool, error)
	MarkDone(ctx context.Context, chunk string, worker int64) error
}

// workOff does chunks until all are done. Those that another worker is at are left to it, and looked at again at the end.
func workOff(ctx context.Context, m *fairlock.Manager, l ledger, chunks []string, do func(ctx context.Context, chunk string) error) error {
	for _, wait := range []bool{false, true} {
		for _, chunk := range chunks {
			err := try(ctx, m, l, chunk, wait, do)
			switch {
			case errors.Is(err, fairlock.ErrBusy), errors.Is(err, fairlock.ErrLost):
				// somebody else's: in the second pass it is waited for
			case err != nil:
				return fmt.Errorf("chunk %s: %w", chunk, err)
			}
		}
	}
	return nil
}

func try(ctx context.Context, m *fairlock.Manager, l ledger, chunk string, wait bool, do func(context.Context, string) error) (err error) {
	if done, err := l.Done(ctx, chunk); err != nil || done {
		return err
	}
	take := m.TryLock
	if wait {
		take = m.Lock
	}
	lock, err := take(ctx, "chunk/"+chunk)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, lock.Unlock(end))
	}()
	if done, err := l.Done(ctx, chunk); err != nil || done {
		return err // between our look and our turn
	}
	if err := do(lock.Context(), chunk); err != nil {
		return err
	}
	return l.MarkDone(ctx, chunk, lock.Token())
}

// collection is a ledger in MongoDB.
type collection struct{ *mongo.Collection }

func (c collection) Done(ctx context.Context, chunk string) (bool, error) {
	var doc struct{ Done bool }
	err := c.FindOne(ctx, bson.D{{Key: "_id", Value: chunk}}).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = nil
	}
	return doc.Done, err
}

func (c collection) MarkDone(ctx context.Context, chunk string, worker int64) error {
	f, err := fence.New(worker)
	if err != nil {
		return err
	}
	_, err = f.UpdateOne(ctx, c.Collection, bson.D{{Key: "_id", Value: chunk}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "done", Value: true}}}}, options.UpdateOne().SetUpsert(true))
	return err
}

func main() {
	n := flag.Int("chunks", 20, "how many there are")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("arguments are %q: must be none", flag.Args())
	}
	if *n < 1 {
		log.Fatalf("-chunks is %d: must be at least 1", *n)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("FAIRLOCK_URI")))
	if err != nil {
		log.Fatal("FAIRLOCK_URI: ", err)
	}
	db := client.Database("fairlock_batch")
	m, err := fairlock.New(ctx, db, nil)
	if err != nil {
		log.Fatal(err)
	}
	var chunks []string
	for i := range *n {
		chunks = append(chunks, fmt.Sprint(i))
	}
	err = workOff(ctx, m, collection{db.Collection("chunks")}, chunks, func(ctx context.Context, chunk string) error {
		fmt.Println("working at", chunk)
		select {
		case <-time.After(50 * time.Millisecond):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := errors.Join(err, m.Close(end), client.Disconnect(end)); err != nil {
		log.Fatal(err)
	}
}
