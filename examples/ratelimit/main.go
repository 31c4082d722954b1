// Command ratelimit calls a service that bears a few calls at a time, from however many machines it runs on. A semaphore counts them all together, and
// whoever needs more of it waits for its turn without being passed by those who need little.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
)

// limiter lets so much through at a time as its semaphore has permits.
type limiter struct{ sem *fairlock.Semaphore }

// call runs fn when weight permits are free. fn's context ends when they are lost: somebody else may use them from then on.
func (l limiter) call(ctx context.Context, weight int64, fn func(context.Context) error) error {
	held, err := l.sem.Acquire(ctx, weight, fairlock.MaxWait(time.Minute))
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = held.Unlock(end) // a loss has ended fn's context
	}()
	under, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(held.Context(), func() { cancel(context.Cause(held.Context())) })()
	return fn(under)
}

func main() {
	permits := flag.Int64("permits", 3, "how much the service bears at a time")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("arguments are %q: must be none", flag.Args())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("FAIRLOCK_URI")))
	if err != nil {
		log.Fatal("FAIRLOCK_URI: ", err)
	}
	m, err := fairlock.New(ctx, client.Database("fairlock_ratelimit"), nil)
	if err != nil {
		log.Fatal(err)
	}
	sem, err := m.Semaphore("service", *permits)
	if err != nil {
		log.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			weight := int64(1)
			if i%4 == 0 {
				weight = min(2, *permits) // a call that costs the service twice as much
			}
			err := limiter{sem}.call(ctx, weight, func(ctx context.Context) error {
				log.Print("call ", i, ", weight ", weight)
				select {
				case <-time.After(300 * time.Millisecond):
				case <-ctx.Done():
				}
				return context.Cause(ctx)
			})
			if err != nil {
				log.Print("call ", i, ": ", err)
			}
		})
	}
	all.Wait()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := errors.Join(m.Close(end), client.Disconnect(end)); err != nil {
		log.Fatal(err)
	}
}
