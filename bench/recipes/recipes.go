package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/fairlock/fairlock/bench/contend"
)

// MaxTries is how often mongo-spin tries before it says that the server is busy.
const MaxTries = 1000

// lockFor is the time after which a lock of a dead holder is free, as in the sources: a minute by TTL index, five by expiresAt.
const (
	lockFor   = time.Minute
	expiresIn = 5 * time.Minute
)

// recipe is one way to try a lock once, and to give it back.
type recipe struct {
	setup   func(ctx context.Context, coll *mongo.Collection, lock string) error
	try     func(ctx context.Context, coll *mongo.Collection, lock, owner string) (bool, error)
	release func(ctx context.Context, coll *mongo.Collection, lock, owner string) (bool, error)
	most    int // tries until the caller is told that it is busy; 0: no end
}

var recipes = []struct {
	name string
	recipe
}{
	{"mongo-exists", exists}, {"mongo-state", state}, {"mongo-spin", spin}, {"mongo-modify", modify},
}

// Intervals are the sleeps between two tries.
var Intervals = []time.Duration{time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond}

// Kinds are all recipes with all intervals.
func Kinds() (kinds []contend.Kind) {
	for _, r := range recipes {
		for _, every := range Intervals {
			kinds = append(kinds, contend.Kind{
				Name: fmt.Sprintf("%s-%s", r.name, every), Server: "mongo",
				Open: func(ctx context.Context, target, lock string) (contend.Locker, error) {
					return open(ctx, r.name, r.recipe, every, target, lock)
				},
			})
		}
	}
	return kinds
}

// poller is a contender's client of a recipe.
type poller struct {
	recipe
	client *mongo.Client
	coll   *mongo.Collection
	lock   string
	every  time.Duration
	owner  string // of the acquisition under way
	watch  contend.Commands
}

func open(ctx context.Context, name string, r recipe, every time.Duration, target, lock string) (contend.Locker, error) {
	p := &poller{recipe: r, every: every, lock: lock}
	client, err := contend.MongoClient(target, p.watch.Monitor(lock))
	if err != nil {
		return nil, err
	}
	journal := true
	p.client = client
	p.coll = client.Database(contend.Database).Collection(name, options.Collection().
		SetWriteConcern(&writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journal}))
	if err := p.setup(ctx, p.coll, lock); err != nil {
		return nil, errors.Join(err, client.Disconnect(ctx))
	}
	return p, nil
}

// Lock tries until it succeeds. The outcome of a try that is cut short by ctx is unknown; it is then given back.
func (p *poller) Lock(ctx context.Context) (contend.Grant, error) {
	p.owner = ulid.Make().String()
	t := time.NewTimer(0)
	defer t.Stop()
	for tries := 0; ; tries++ {
		if p.most > 0 && tries == p.most {
			tries = 0 // busy: the benchmark's caller is one that asks again
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return contend.Grant{}, ctx.Err()
		}
		ok, err := p.try(ctx, p.coll, p.lock, p.owner)
		switch {
		case ok:
			return contend.Grant{}, nil
		case err != nil && ctx.Err() != nil:
			later, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_, rerr := p.release(later, p.coll, p.lock, p.owner)
			return contend.Grant{}, errors.Join(err, rerr)
		case err != nil:
			return contend.Grant{}, err
		}
		t.Reset(p.every)
	}
}

// Unlock releases, if the lock is still the owner's.
func (p *poller) Unlock(ctx context.Context) error {
	mine, err := p.release(ctx, p.coll, p.lock, p.owner)
	if err == nil && !mine {
		err = fmt.Errorf("recipes: %s was not %s's at its release", p.lock, p.owner)
	}
	return err
}

func (p *poller) Count() contend.Totals { return p.watch.Totals() }

func (p *poller) Close(ctx context.Context) (contend.Totals, error) {
	return p.watch.Totals(), p.client.Disconnect(ctx)
}
