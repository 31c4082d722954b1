// Command leader runs a job on one of however many machines it runs on. The others stand by, in line: when the leader ends or is lost, the next one goes
// on, within the lease at the latest.
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

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
)

// stand stands for leader until ctx ends. While it leads, job runs, and must return soon after its context ends. A leadership that was lost is
// stood for again, at the end of the line.
func stand(ctx context.Context, m *fairlock.Manager, who string, job func(ctx context.Context, term int64) error) error {
	e, err := m.Election("reports")
	if err != nil {
		return err
	}
	for {
		lead, err := e.Campaign(ctx, who)
		if err != nil {
			if ctx.Err() != nil {
				return nil // asked to end while it stood by
			}
			return err
		}
		err = job(joined(ctx, lead.Context()), lead.Token())
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		lost := lead.Resign(end)
		cancel()
		switch {
		case errors.Is(lost, fairlock.ErrLost):
			log.Print(who, ": ", lost)
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err // the job's own: the next in line tries
		}
	}
}

// joined ends when either of two contexts ends.
func joined(ctx, also context.Context) context.Context {
	both, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(also, func() { cancel(context.Cause(also)) }) // which ends, at Resign at the latest
	return both
}

func main() {
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
	m, err := fairlock.New(ctx, client.Database("fairlock_leader"), nil)
	if err != nil {
		log.Fatal(err)
	}
	who, _ := os.Hostname()
	err = stand(ctx, m, who, func(ctx context.Context, term int64) error {
		for {
			fmt.Println("leading, term", term) // give term to what the job writes to, see package fence
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return nil
			}
		}
	})
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := errors.Join(err, m.Close(end), client.Disconnect(end)); err != nil {
		log.Fatal(err)
	}
}
