package lockers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/fairlock/fairlock/bench/contend"
)

// redsyncExpiry is redsync's default.
const redsyncExpiry = 8 * time.Second

// Redsync is github.com/go-redsync/redsync with its defaults (expiry 8 s, a random 50 to 250 ms between two tries), but for the number of
// tries: 2^30 in place of 32.
func Redsync() contend.Kind {
	return contend.Kind{Name: "redsync", Server: "redis", Open: func(ctx context.Context, target, lock string) (contend.Locker, error) {
		client, err := redisClient(ctx, target)
		if err != nil {
			return nil, err
		}
		return &redsyncLock{
			client: client,
			mutex:  redsync.New(goredis.NewPool(client)).NewMutex(lock, redsync.WithTries(1<<30)),
		}, nil
	}}
}

// redisClient connects, so that the first lock does not pay for it.
func redisClient(ctx context.Context, target string) (*redis.Client, error) {
	client := redis.NewClient(&redis.Options{Addr: target})
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

type redsyncLock struct {
	client *redis.Client
	mutex  *redsync.Mutex
	renew  *renewer
}

func (l *redsyncLock) Lock(ctx context.Context) (contend.Grant, error) {
	if err := l.mutex.LockContext(ctx); err != nil {
		return contend.Grant{}, err
	}
	l.renew = startRenewer(ctx, redsyncExpiry/3, func(ctx context.Context) { _, _ = l.mutex.ExtendContext(ctx) })
	return contend.Grant{}, nil
}

func (l *redsyncLock) Unlock(ctx context.Context) error {
	l.renew.stop()
	ok, err := l.mutex.UnlockContext(ctx)
	if err == nil && !ok {
		return fmt.Errorf("redsync: %s was not held any more", l.mutex.Name())
	}
	return err
}

func (l *redsyncLock) Close(context.Context) (contend.Totals, error) {
	return contend.Totals{}, l.client.Close()
}
