// Package lockers has the lock libraries that fairlock is measured against, each as a [contend.Kind]: a client of its own in a process of
// its own, set up as a user of that library gets it, but willing to wait without end.
//
// Where a library's lock expires and the library leaves renewing to its user (redsync, bsm/redislock), this package renews it every third
// of its life, as their documentation tells users to. That begins long after a hold of the matrix is over; it is there for the idle
// measurement, which holds a lock for many seconds.
//
// What a library does not tell is left out: only etcd's mutex knows a token, and none says when a place in line was taken.
package lockers

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/fairlock/bench/contend"
)

// All returns the kinds that are built into the harness. Those of other programs are in packages peers and peers/java.
func All() []contend.Kind {
	return []contend.Kind{Redsync(), Rueidislock(), BSMRedislock(), EtcdMutex(), PGAdvisory()}
}

// renewer calls renew from time to time while a lock is held.
type renewer struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// startRenewer begins with the grant. A renewal that fails is not repeated early: the next one, or the unlock, shows what is wrong.
func startRenewer(ctx context.Context, every time.Duration, renew func(context.Context)) *renewer {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &renewer{cancel: cancel}
	r.done.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				renew(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	return r
}

// stop returns when no renewal is under way, so that an unlock meets none.
func (r *renewer) stop() {
	r.cancel()
	r.done.Wait()
}
