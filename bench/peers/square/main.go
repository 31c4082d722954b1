// Command square is a contender on github.com/square/mongo-lock. See package contend for how it is talked to.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	lock "github.com/square/mongo-lock"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/event"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.mongodb.org/mongo-driver/mongo/writeconcern"

	"github.com/fairlock/fairlock/bench/contend"
)

func main() { os.Exit(contend.Main([]contend.Kind{SquareMongoLock()}, os.Args[1:])) }

// squareRetry is the pause between two tries. The library has no wait and its README names no pause; 100 ms is what the other polling
// recipe on MongoDB here (D) and bsm/redislock use.
const squareRetry = 100 * time.Millisecond

// SquareMongoLock is XLock and Unlock of github.com/square/mongo-lock on the driver it is made for (version 1), with majority writes and
// its recommended indexes, as its README shows; no TTL, as in the README, so nothing has to be renewed. Since it only tries once, a loop
// around it waits.
func SquareMongoLock() contend.Kind {
	return contend.Kind{Name: "square-mongo-lock", Server: "mongo", Open: func(ctx context.Context, target, name string) (contend.Locker, error) {
		s := &squareLock{resource: name, id: primitive.NewObjectID().Hex()}
		client, err := mongo.Connect(ctx, options.Client().ApplyURI(target).SetWriteConcern(writeconcern.Majority()).
			SetMonitor(&event.CommandMonitor{Started: func(context.Context, *event.CommandStartedEvent) { s.commands.Add(1) }}))
		if err != nil {
			return nil, err
		}
		s.client = client
		s.locks = lock.NewClient(client.Database(contend.Database).Collection("square.locks"))
		if err := s.locks.CreateIndexes(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("indexes: %w", err), client.Disconnect(ctx))
		}
		return s, nil
	}}
}

type squareLock struct {
	client   *mongo.Client
	locks    *lock.Client
	resource string
	id       string
	commands atomic.Int64
}

func (l *squareLock) Lock(ctx context.Context) (contend.Grant, error) {
	host, _ := os.Hostname() // only told to people
	details := lock.LockDetails{Owner: fmt.Sprint(os.Getpid()), Host: host}
	for {
		err := l.locks.XLock(ctx, l.resource, l.id, details)
		if err == nil {
			return contend.Grant{}, nil
		}
		if ctx.Err() != nil {
			// Whether the write was carried out is not known.
			l.giveBack(ctx)
			return contend.Grant{}, ctx.Err()
		}
		if !errors.Is(err, lock.ErrAlreadyLocked) {
			return contend.Grant{}, err
		}
		select {
		case <-time.After(squareRetry):
		case <-ctx.Done():
			return contend.Grant{}, ctx.Err()
		}
	}
}

// giveBack is for a try that was cancelled. If it fails too, the lock stays with the id for ever; the end of the run has come anyway.
func (l *squareLock) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, _ = l.locks.Unlock(ctx, l.id)
}

func (l *squareLock) Unlock(ctx context.Context) error {
	freed, err := l.locks.Unlock(ctx, l.id)
	if err == nil && len(freed) != 1 {
		return fmt.Errorf("square-mongo-lock: %d locks were given back, not 1", len(freed))
	}
	return err
}

// Count implements [contend.Counter].
func (l *squareLock) Count() contend.Totals { return contend.Totals{Commands: l.commands.Load()} }

func (l *squareLock) Close(ctx context.Context) (contend.Totals, error) {
	return l.Count(), l.client.Disconnect(ctx)
}
