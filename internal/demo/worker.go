package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/measure"
)

// worker is one worker process.
type worker struct {
	cfg    config
	out    *lineWriter
	mgr    *fairlock.Manager
	ledger ledger
	count  *counter
	stall  atomic.Bool // set by command, taken by whoever commits next
	gate   gate
}

// RunWorker is the main of a worker process: it works until the ledger is complete. When in ends before that, the parent
// has died, and the process ends at once, leaving everything to its lease.
func RunWorker(ctx context.Context, in io.Reader, out, errw io.Writer) error {
	// A terminal sends these to the whole group; what they mean is the parent's to decide.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
	dec := json.NewDecoder(in)
	w := &worker{out: newLineWriter(out)}
	if err := dec.Decode(&w.cfg); err != nil {
		return fmt.Errorf("demo worker: config on stdin: %w", err)
	}
	w.gate.init(w.cfg.Limit)
	go func() {
		for {
			var c command
			if err := dec.Decode(&c); err != nil {
				os.Exit(1)
			}
			if c.Stall {
				w.stall.Store(true)
			}
			if c.Limit > 0 {
				w.gate.raise(c.Limit)
			}
		}
	}()
	err := w.work(ctx, errw)
	switch {
	case errors.Is(err, errCorrupt):
		w.out.emit(event{Kind: evCorrupt, Text: err.Error()})
	case err != nil:
		w.out.emit(event{Kind: evFatal, Text: err.Error()})
	}
	return err
}

const (
	connectLimit = 30 * time.Second
	countsPause  = 250 * time.Millisecond
)

func (w *worker) work(ctx context.Context, errw io.Writer) (err error) {
	w.count = newCounter(w.cfg.Prefix)
	client, err := mongo.Connect(options.Client().ApplyURI(w.cfg.URI).SetAppName("fairlock-demo").SetMonitor(w.count.monitor()))
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = client.Disconnect(end)
	}()
	db := client.Database(w.cfg.DB)
	w.ledger = openLedger(db, w.cfg.Prefix)
	start, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	w.mgr, err = fairlock.New(start, db, &fairlock.Config{
		TTL: w.cfg.TTL, Prefix: w.cfg.Prefix, Label: fmt.Sprintf("worker %d", w.cfg.Worker),
		Logger: slog.New(slog.NewTextHandler(errw, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	w.out.emit(event{Kind: evReady})
	err = w.crowd(ctx)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectLimit)
	defer cancel()
	err = errors.Join(err, w.mgr.Close(end))
	w.tell()
	return err
}

// crowd runs the goroutines, and tells the counts now and then, so that those of a killed worker are not lost.
func (w *worker) crowd(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for g := range w.cfg.Goroutines {
		wg.Go(func() {
			if err := w.repeat(ctx, g+1); err != nil {
				cancel(err)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	tick := time.NewTicker(countsPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.tell()
		case <-done:
			return context.Cause(ctx)
		}
	}
}

func (w *worker) tell() {
	w.out.emit(event{Kind: evCounts, Counts: &counts{Commands: w.count.snapshot(), Stats: w.mgr.Stats()}})
}

// repeat takes the lock and a turn at the ledger until that is complete.
func (w *worker) repeat(ctx context.Context, g int) error {
	label := fairlock.Label(fmt.Sprintf("worker %d/%d", w.cfg.Worker, g))
	for {
		w.out.emit(event{Kind: evWait, Goroutine: g})
		lock, err := w.mgr.Lock(ctx, lockName, label)
		if err != nil {
			w.out.emit(event{Kind: evFailed, Goroutine: g, Text: err.Error()})
			return err
		}
		n, err := w.hold(ctx, g, lock)
		if err != nil {
			return err
		}
		if n >= int64(len(w.cfg.Invoices)) {
			return nil
		}
		if err := w.gate.wait(ctx, n); err != nil {
			return err
		}
	}
}

// hold is one hold of the lock, and returns how many rows there were at its end. That the lock is lost is no error: somebody
// else has it, and this one asks again.
func (w *worker) hold(ctx context.Context, g int, lock *fairlock.Lock) (int64, error) {
	token, good := lock.Token(), measure.Stamp()
	w.out.emit(event{Kind: evGrant, Goroutine: g, At: good, Token: token})
	// The stamp is taken before Err is asked: if that is nil, the lock was held at the stamp.
	held := func() error {
		now := measure.Stamp()
		err := lock.Err()
		if err == nil {
			good = now
		}
		return err
	}
	between := func() {
		if w.stall.CompareAndSwap(true, false) && held() == nil {
			w.out.emit(event{Kind: evStalled, Goroutine: g, At: good, Token: token})
			<-ctx.Done() // in fact SIGKILL
		}
	}
	if w.cfg.Hold > 0 {
		select {
		case <-time.After(w.cfg.Hold):
		case <-lock.Context().Done():
		}
	}
	o, err := w.ledger.turn(ctx, w.cfg.Invoices, w.gate.now(), writer{token, w.cfg.Worker, g}, held, between)
	if o.wrote || o.repaired > 0 {
		w.out.emit(event{Kind: evRow, Goroutine: g, Token: token, N: o.n, Repaired: o.repaired})
	}
	end := event{Kind: evUnlock, Goroutine: g, Token: token, N: o.n, Refused: o.refused}
	if held() != nil {
		end.Kind = evLost
		end.Text = lock.Err().Error()
	}
	end.At = good
	w.out.emit(end)
	unlock, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectLimit)
	defer cancel()
	if uerr := lock.Unlock(unlock); uerr != nil && !errors.Is(uerr, fairlock.ErrLost) {
		err = errors.Join(err, uerr)
	}
	if errors.Is(err, fairlock.ErrLost) || errors.Is(err, errFenced) {
		err = nil
	}
	return o.n, err
}

// gate holds goroutines back at the limit. Outside a hold: who waits here neither holds nor waits for the lock.
type gate struct {
	mu     sync.Mutex // guards all below
	limit  int64
	raised chan struct{} // closed and replaced when limit grows
}

func (g *gate) init(limit int64) { g.limit, g.raised = limit, make(chan struct{}) }

func (g *gate) now() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limit
}

func (g *gate) raise(limit int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if limit > g.limit {
		g.limit = limit
		close(g.raised)
		g.raised = make(chan struct{})
	}
}

// wait returns when n is below the limit.
func (g *gate) wait(ctx context.Context, n int64) error {
	for {
		g.mu.Lock()
		open, raised := n < g.limit, g.raised
		g.mu.Unlock()
		if open {
			return nil
		}
		select {
		case <-raised:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
