package lockbench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/measure"
	"github.com/fairlock/fairlock/internal/tail"
)

// Options is what a run is told. All of it must have been checked.
type Options struct {
	Client *mongo.Client
	URI    string // the same, for the workers
	DB     string // must be empty
	Prefix string

	Processes, Goroutines int
	Duration, Hold        time.Duration

	// Worker makes the command of one worker process.
	Worker func(context.Context) *exec.Cmd
	Log    *slog.Logger
}

const (
	samples = 100 // of the floor, twice, and of pairs

	connectLimit = 15 * time.Second
	endLimit     = 10 * time.Second // for each part of the cleaning up
)

// warmUp is not counted: streams are opened, and the line forms.
func (o *Options) warmUp() time.Duration { return min(time.Second, o.Duration/2) }

// Run measures. What it has made is dropped when it returns, whatever else went wrong.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	db := o.Client.Database(o.DB)
	claimed, err := claim(ctx, db, o.Prefix)
	if claimed {
		defer func() { err = errors.Join(err, drop(ctx, db, o.Prefix)) }()
	}
	if err != nil {
		return nil, err
	}
	m, err := manager(ctx, db, o.Prefix, "bench", o.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeManager(ctx, m)) }()
	if err := m.Setup(ctx); err != nil {
		return nil, err
	}
	r = &Result{
		Database: o.DB, Processes: o.Processes, Goroutines: o.Goroutines,
		Hold: measure.InMillis(o.Hold), Duration: measure.InMillis(o.Duration),
	}
	if r.Server, err = version(ctx, db); err != nil {
		return nil, err
	}
	return r, o.measure(ctx, m, db, r)
}

// measure fills r.
func (o *Options) measure(ctx context.Context, m *fairlock.Manager, db *mongo.Database, r *Result) error {
	c := o.hire(ctx)
	var pairs []time.Duration
	floors, err := c.whenReady(func(ctx context.Context) ([]time.Duration, error) {
		o.Log.Info("measuring the floor", "writes", samples)
		floors, err := measure.Floor(ctx, db, o.Prefix+own, samples, 0)
		if err != nil {
			return nil, err
		}
		o.Log.Info("measuring pairs", "pairs", samples)
		pairs, err = pair(ctx, m)
		return floors, err
	})
	from := measure.Stamp() + int64(o.warmUp())
	var holds []hold
	if err == nil {
		o.Log.Info("measuring hand-offs", "for", o.warmUp()+o.Duration)
		c.order(order{Until: from + int64(o.Duration)})
	}
	if holds, err = c.dismiss(err); err != nil {
		return err
	}
	after, err := measure.Floor(ctx, db, o.Prefix+own, samples, 0)
	if err != nil {
		return err
	}
	r.Floor = measure.Of(append(floors, after...))
	r.Pair = figure(pairs, r.Floor)
	across, within, counted := handoffs(holds, from)
	r.Across, r.Within = figure(across, r.Floor), figure(within, r.Floor)
	r.Acquisitions, r.PerSecond = counted, measure.Round(float64(counted)/o.Duration.Seconds())
	return nil
}

// pair takes a lock that nobody else wants.
func pair(ctx context.Context, m *fairlock.Manager) (all []time.Duration, err error) {
	for i := range samples + 1 {
		begin := measure.Stamp()
		lock, err := m.Lock(ctx, "pair")
		if err != nil {
			return nil, err
		}
		if err := lock.Unlock(ctx); err != nil {
			return nil, err
		}
		if i > 0 { // the first makes the document
			all = append(all, time.Duration(measure.Stamp()-begin))
		}
	}
	return all, nil
}

// crew is the workers, each looked after by one goroutine.
type crew struct {
	ctx    context.Context // ends with the first that fails
	end    context.CancelCauseFunc
	group  *errgroup.Group
	ready  chan struct{}
	orders []chan order
	holds  [][]hold // by worker; to be read when all have ended
}

// hire starts the workers. dismiss must follow.
func (o *Options) hire(ctx context.Context) *crew {
	ctx, end := context.WithCancelCause(ctx)
	c := &crew{end: end, ready: make(chan struct{}, o.Processes), holds: make([][]hold, o.Processes)}
	c.group, c.ctx = errgroup.WithContext(ctx)
	for i := range o.Processes {
		orders := make(chan order, 1)
		c.orders = append(c.orders, orders)
		cfg := config{Worker: i + 1, Goroutines: o.Goroutines, URI: o.URI, DB: o.DB, Prefix: o.Prefix, Hold: o.Hold}
		cmd := o.Worker(c.ctx)
		c.group.Go(func() (err error) {
			c.holds[i], err = c.attend(cmd, cfg, orders)
			return err
		})
	}
	return c
}

// whenReady calls f when all workers are connected. Its context ends when one of them fails.
func (c *crew) whenReady(f func(context.Context) ([]time.Duration, error)) ([]time.Duration, error) {
	for range c.orders {
		select {
		case <-c.ready:
		case <-c.ctx.Done():
			return nil, context.Cause(c.ctx)
		}
	}
	return f(c.ctx)
}

func (c *crew) order(o order) {
	for _, orders := range c.orders {
		orders <- o
	}
}

// dismiss waits until all workers have ended; with an error it ends them. The holds are those of all. A worker's failure says
// more than what it has brought about.
func (c *crew) dismiss(err error) (all []hold, _ error) {
	if err != nil {
		c.end(err)
	}
	failed := c.group.Wait()
	c.end(nil)
	if failed = cmp.Or(failed, err); failed != nil {
		return nil, failed
	}
	for i, holds := range c.holds {
		for _, h := range holds {
			h.Worker = i + 1
			all = append(all, h)
		}
	}
	return all, nil
}

// attend is one worker's life. When c.ctx ends its stdin is closed, and it is killed if that does not end it.
func (c *crew) attend(cmd *exec.Cmd, cfg config, orders <-chan order) (holds []hold, err error) {
	var words tail.Tail
	cmd.Stderr = &words
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Cancel, cmd.WaitDelay = stdin.Close, endLimit
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start worker %d: %w", cfg.Worker, err)
	}
	in, out := json.NewEncoder(stdin), json.NewDecoder(stdout)
	holds, err = func() ([]hold, error) {
		var r reply
		if err := errors.Join(in.Encode(cfg), out.Decode(&r)); err != nil || r.Error != "" {
			return nil, errors.Join(err, said(r))
		}
		c.ready <- struct{}{}
		select {
		case o := <-orders:
			if err := in.Encode(o); err != nil {
				return nil, err
			}
		case <-c.ctx.Done():
			return nil, context.Cause(c.ctx)
		}
		err := out.Decode(&r)
		return r.Holds, errors.Join(err, said(r))
	}()
	_ = stdin.Close()
	ended := cmd.Wait()
	switch {
	case c.ctx.Err() != nil: // it was ended: whatever it says is of that
		return nil, context.Cause(c.ctx)
	case err == nil && ended == nil:
		return holds, nil
	case errors.Is(err, io.EOF) && ended != nil:
		err = nil // it says nothing: how it ended does
	}
	err = fmt.Errorf("worker %d: %w", cfg.Worker, errors.Join(err, ended))
	if s := words.String(); s != "" {
		err = fmt.Errorf("%w; its last words: %s", err, s)
	}
	return nil, err
}

// said is the error that a worker tells.
func said(r reply) error {
	if r.Error == "" {
		return nil
	}
	return errors.New(r.Error)
}

// version is the server's.
func version(ctx context.Context, db *mongo.Database) (string, error) {
	var info struct{ Version string }
	err := db.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&info)
	return info.Version, err
}
