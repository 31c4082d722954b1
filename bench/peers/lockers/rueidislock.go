package lockers

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/fairlock/fairlock/bench/contend"
)

// Rueidislock is github.com/redis/rueidis/rueidislock with KeyMajority 1 and NoLoopTracking, as its README advises for one Redis of
// version 7; all else at its defaults. It renews its locks itself.
func Rueidislock() contend.Kind {
	return contend.Kind{Name: "rueidislock", Server: "redis", Open: func(_ context.Context, target, lock string) (contend.Locker, error) {
		locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{target}},
			KeyMajority:    1,
			NoLoopTracking: true,
		})
		if err != nil {
			return nil, err
		}
		return &rueidisLock{locks: locks, name: lock}, nil
	}}
}

type rueidisLock struct {
	locks   rueidislock.Locker
	name    string
	release context.CancelFunc // returns when the lock is given back
}

func (l *rueidisLock) Lock(ctx context.Context) (contend.Grant, error) {
	// The parent of a held lock is not ctx: the end of ctx would give the lock back before Unlock does. So ctx ends the wait alone.
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	_, release, err := l.locks.WithContext(waiting, l.name)
	if err == nil && !stop() {
		release()
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel()
		return contend.Grant{}, err
	}
	l.release = func() {
		release()
		cancel()
	}
	return contend.Grant{}, nil
}

func (l *rueidisLock) Unlock(context.Context) error {
	l.release()
	return nil
}

func (l *rueidisLock) Close(context.Context) (contend.Totals, error) {
	l.locks.Close()
	return contend.Totals{}, nil
}
