package lockbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/measure"
)

// lockName is the lock of the hand-offs.
const lockName = "handoff"

// config is the first line on a worker's stdin. The URI can hold a password, so it is not an argument that others could
// see in a list of processes.
type config struct {
	Worker     int           `json:"worker"`
	Goroutines int           `json:"goroutines"`
	URI        string        `json:"uri"`
	DB         string        `json:"db"`
	Prefix     string        `json:"prefix"`
	Hold       time.Duration `json:"hold"`
}

// order is the second one: work until that stamp.
type order struct {
	Until int64 `json:"until"`
}

// reply is a line on a worker's stdout: the first when it is connected, the second when it has worked.
type reply struct {
	Holds []hold `json:"holds,omitempty"`
	Error string `json:"error,omitempty"`
}

// RunWorker is the main of a worker process. When in ends before the work is done, the run is over, or its process has died: the worker
// gives back what it has and ends.
func RunWorker(ctx context.Context, in io.Reader, out io.Writer) error {
	// A terminal sends these to the whole group; what they mean is the parent's to decide.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	var cfg config
	if err := dec.Decode(&cfg); err != nil {
		return fmt.Errorf("lockbench worker: config on stdin: %w", err)
	}
	orders := make(chan order, 1)
	go func() { // ends with the process
		for {
			var o order
			if err := dec.Decode(&o); err != nil {
				cancel(errors.New("lockbench worker: the run is over"))
				return
			}
			orders <- o
		}
	}()
	holds, err := work(ctx, cfg, orders, func() error { return enc.Encode(reply{}) })
	r := reply{Holds: holds}
	if err != nil {
		r = reply{Error: err.Error()}
	}
	return errors.Join(err, enc.Encode(r))
}

// work connects, says so, and works by order.
func work(ctx context.Context, cfg config, orders <-chan order, ready func() error) (holds []hold, err error) {
	client, err := mongo.Connect(options.Client().ApplyURI(cfg.URI).SetAppName("fairlock-bench"))
	if err != nil {
		return nil, err
	}
	defer disconnect(ctx, client)
	m, err := manager(ctx, client.Database(cfg.DB), cfg.Prefix, fmt.Sprintf("worker %d", cfg.Worker), nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeManager(ctx, m)) }()
	if err := ready(); err != nil {
		return nil, err
	}
	var o order
	select {
	case o = <-orders:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	all := make([][]hold, cfg.Goroutines)
	errs := make([]error, cfg.Goroutines)
	var wg sync.WaitGroup
	for g := range cfg.Goroutines {
		wg.Go(func() { all[g], errs[g] = repeat(ctx, m, cfg.Hold, o.Until) })
	}
	wg.Wait()
	return slices.Concat(all...), errors.Join(errs...)
}

// repeat takes the lock until that stamp.
func repeat(ctx context.Context, m *fairlock.Manager, length time.Duration, until int64) (holds []hold, err error) {
	for {
		h := hold{Wait: measure.Stamp()}
		if h.Wait >= until {
			return holds, nil
		}
		lock, err := m.Lock(ctx, lockName)
		if err != nil {
			return nil, err
		}
		h.Grant = measure.Stamp()
		if length > 0 {
			select {
			case <-time.After(length):
			case <-lock.Context().Done(): // Unlock tells why
			}
		}
		h.End = measure.Stamp()
		if err := lock.Unlock(ctx); err != nil {
			return nil, err
		}
		holds = append(holds, h)
	}
}
