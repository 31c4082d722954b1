package lockers

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/fairlock/fairlock/bench/contend"
)

const (
	bsmTTL     = 10 * time.Second
	bsmBackoff = 100 * time.Millisecond

	// bsmPatience bounds one Obtain: without a deadline it would give up after the TTL.
	bsmPatience = 24 * time.Hour
)

// BSMRedislock is github.com/bsm/redislock with the linear backoff of 100 ms that its examples use, and a TTL of 10 s.
func BSMRedislock() contend.Kind {
	return contend.Kind{Name: "bsm-redislock", Server: "redis", Open: func(ctx context.Context, target, lock string) (contend.Locker, error) {
		client, err := redisClient(ctx, target)
		if err != nil {
			return nil, err
		}
		return &bsmLock{client: client, locks: redislock.New(client), key: lock}, nil
	}}
}

type bsmLock struct {
	client *redis.Client
	locks  *redislock.Client
	key    string
	held   *redislock.Lock
	renew  *renewer
}

func (l *bsmLock) Lock(ctx context.Context) (contend.Grant, error) {
	waiting, cancel := context.WithTimeout(ctx, bsmPatience)
	defer cancel()
	held, err := l.locks.Obtain(waiting, l.key, bsmTTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(bsmBackoff)})
	if err != nil {
		return contend.Grant{}, err
	}
	l.held = held
	l.renew = startRenewer(ctx, bsmTTL/3, func(ctx context.Context) { _ = held.Refresh(ctx, bsmTTL, nil) })
	return contend.Grant{}, nil
}

func (l *bsmLock) Unlock(ctx context.Context) error {
	l.renew.stop()
	return l.held.Release(ctx)
}

func (l *bsmLock) Close(context.Context) (contend.Totals, error) {
	return contend.Totals{}, l.client.Close()
}
