package demo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/measure"
	"github.com/fairlock/fairlock/internal/replset"
	"github.com/fairlock/fairlock/queue"
)

// run is what one Run stands on.
type run struct {
	o      Options
	in     []Invoice
	id     string
	prefix string
	began  int64 // stamp

	set    *replset.Set // nil when a URI was given
	uri    string
	client *mongo.Client
	db     *mongo.Database
	mgr    *fairlock.Manager // looks at the queue, and takes no lock
	ledger ledger
	made   bool // there can be collections of the run's
	seen   *observer
	queue  atomic.Pointer[fairlock.LockInfo] // newest
}

// floorSamples is taken before the workers start, and again after they have ended.
const floorSamples = 60

// endLimit bounds each part of the cleaning up.
const endLimit = 15 * time.Second

// Run does one demo. The summary says whether the proofs hold; without one the error says why. With one it is about the
// cleaning up. Nothing is left when Run returns without error, unless Keep is set: no process, no server, no collection.
func Run(ctx context.Context, o Options) (s *Summary, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &run{o: o, began: measure.Stamp()}
	if r.in, err = o.load(); err != nil {
		return nil, err
	}
	defer o.View.End()
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	if s, err = r.work(ctx); err != nil {
		return nil, err
	}
	o.View.Summary(s)
	if o.Keep {
		r.keep(ctx)
	}
	return s, nil
}

// note shows a note of the run's own.
func (r *run) note(kind NoteKind, format string, args ...any) {
	r.o.View.Note(Note{At: r.since(), Kind: kind, Text: fmt.Sprintf(format, args...)})
}

func (r *run) since() time.Duration { return time.Duration(measure.Stamp() - r.began) }

// open starts or finds the servers, and makes what the workers will find.
func (r *run) open(ctx context.Context) (err error) {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	r.id = hex.EncodeToString(id[:])
	r.prefix = r.o.Prefix + "demo-" + r.id + "."
	r.uri = r.o.URI
	if r.uri == "" {
		r.note(NoteStart, "starting a replica set of three (the first start may have to download mongod)")
		if r.set, err = replset.Start(ctx, replset.Options{Log: r.o.Log}); err != nil {
			return err
		}
		r.uri = r.set.URI()
		r.note(NoteStart, "MongoDB %s is ready at %s", r.set.Binary().Version, r.uri)
	}
	if r.client, err = mongo.Connect(options.Client().ApplyURI(r.uri).SetAppName("fairlock-demo")); err != nil {
		return err
	}
	start, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	r.db = r.client.Database(r.o.DB)
	r.mgr, err = fairlock.New(start, r.db, &fairlock.Config{Prefix: r.prefix, TTL: r.o.TTL, Logger: r.o.Log})
	if err != nil {
		return err
	}
	r.made = true
	if err := r.mgr.Setup(start); err != nil {
		return err
	}
	r.ledger = openLedger(r.db, r.prefix)
	if err := r.ledger.create(start); err != nil {
		return err
	}
	r.seen, err = observe(start, queue.Pinned(r.db, r.prefix+"locks"), lockName)
	return err
}

// work lets the workers work, and measures and proves.
func (r *run) work(ctx context.Context) (*Summary, error) {
	// About what the hold of a batch of local callers takes, hand-off to hand-off.
	guess := min(time.Duration(r.o.Goroutines)*(10*time.Millisecond+r.o.Hold), mostIdle)
	r.note(NoteFloor, "measuring the floor: %d majority writes, one at a time", floorSamples)
	before, err := measure.Floor(ctx, r.db, r.prefix+"floor", floorSamples, guess)
	if err != nil {
		return nil, fmt.Errorf("demo: floor: %w", err)
	}
	base := config{
		Goroutines: r.o.Goroutines, URI: r.uri, DB: r.o.DB, Prefix: r.prefix, TTL: r.o.TTL, Hold: r.o.Hold, Invoices: r.in,
	}
	r.note(NoteStart, "%d workers with %d goroutines each number %d invoices under one lock (seed %d)", r.o.Workers, r.o.Goroutines, len(r.in), r.o.Seed)
	c := newCrew(&r.o, base, r.stepDown, r.began, r.o.View.Note)
	looking, stopLooking := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { r.look(looking) })
	begin := measure.Stamp()
	err = c.run(ctx, r.status)
	took := time.Duration(measure.Stamp() - begin)
	stopLooking()
	wg.Wait()
	if err != nil {
		return nil, err
	}

	h := measureHandoffs(inTime(c.holds), c.plan.all)
	idle := guess
	if len(h.idle) > 0 {
		slices.Sort(h.idle)
		idle = min(h.idle[len(h.idle)/2], mostIdle)
	}
	r.note(NoteFloor, "workers have ended; measuring the floor again, and reading the ledger")
	after, err := measure.Floor(ctx, r.db, r.prefix+"floor", floorSamples, idle)
	if err != nil {
		return nil, fmt.Errorf("demo: floor: %w", err)
	}
	rec, err := r.record(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &Summary{
		Run: r.id, DB: r.o.DB, Prefix: r.prefix, Workers: r.o.Workers, Goroutines: r.o.Goroutines, Invoices: len(r.in),
		Hold: measure.InMillis(r.o.Hold), TTL: measure.InMillis(r.o.TTL), Seed: r.o.Seed, Work: measure.InMillis(took), Proofs: Check(rec),
	}
	if r.set != nil {
		s.Mongod = r.set.Binary().Version
	}
	s.fill(c, rec.Arrivals, before, after, idle)
	s.OK = len(s.failed()) == 0
	s.Total = measure.InMillis(r.since())
	return s, nil
}

// mostIdle bounds what the floor costs in time. Longer pauses change it no more.
const mostIdle = 50 * time.Millisecond

// record collects what the proofs need, when nothing moves any more.
func (r *run) record(ctx context.Context, c *crew) (*Record, error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	rows, err := r.ledger.all(ctx)
	if err != nil {
		return nil, fmt.Errorf("demo: read the ledger: %w", err)
	}
	info, err := r.mgr.Inspect(ctx, lockName)
	if err != nil {
		return nil, err
	}
	arrivals, err := r.seen.upTo(ctx, info.LastToken)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return &Record{Input: r.in, Rows: rows, Arrivals: arrivals, Holds: c.holds, Refused: c.refused}, nil
}

// stepDown makes the primary step down.
func (r *run) stepDown(ctx context.Context) error {
	const secs = 10
	if r.set != nil {
		return r.set.StepDown(ctx, secs)
	}
	err := r.client.Database("admin").RunCommand(ctx, bson.D{
		{Key: "replSetStepDown", Value: secs}, {Key: "secondaryCatchUpPeriodSecs", Value: secs - 1},
	}).Err()
	if mongo.IsNetworkError(err) {
		return nil // servers before 4.2 close all connections
	}
	return err
}

// look reads the queue now and then, at most four times a second, until ctx ends.
func (r *run) look(ctx context.Context) {
	pause := time.Second
	if r.o.View.Live() {
		pause = statusPause
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		call, cancel := context.WithTimeout(ctx, opLimit)
		if info, err := r.mgr.Inspect(call, lockName); err == nil {
			r.queue.Store(info)
		}
		cancel()
	}
}

func (r *run) status(c *crew) {
	s := Status{
		At: r.since(), Rows: c.rows, Total: int64(len(r.in)), Grants: len(c.holds), Waiting: c.waiting(), Queue: r.queue.Load(),
	}
	if p := c.plan; p.at < len(p.all) && p.all[p.at].state > due {
		s.Doing = p.all[p.at].Kind + ": waiting for the queue to go on"
	}
	r.o.View.Status(s)
}

// keep waits, when the servers are the run's own: they and the data end with it.
func (r *run) keep(ctx context.Context) {
	r.note(NoteKeep, "kept: database %s, collections %s*, lock %q", r.o.DB, r.prefix, lockName)
	if r.set == nil {
		return
	}
	r.note(NoteKeep, "the servers run at %s until Ctrl-C", r.uri)
	<-ctx.Done()
}

// close undoes open, as far as it got. ctx may have ended.
func (r *run) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	r.seen.stop()
	var errs []error
	if r.mgr != nil {
		errs = append(errs, r.mgr.Close(ctx))
	}
	if r.made && r.set == nil && !r.o.Keep {
		// Collection by collection: the database may be somebody's. An empty one is gone by itself.
		for _, name := range []string{"locks", "tickets", "sessions", "ledger", "head", "floor"} {
			if err := r.db.Collection(r.prefix + name).Drop(ctx); err != nil {
				errs = append(errs, fmt.Errorf("demo: drop %s%s: %w", r.prefix, name, err))
			}
		}
	}
	if r.client != nil {
		end, cancel := context.WithTimeout(ctx, time.Second)
		_ = r.client.Disconnect(end) // only connections are left
		cancel()
	}
	return errors.Join(append(errs, r.set.Stop(ctx))...)
}
