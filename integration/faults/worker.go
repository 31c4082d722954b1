package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/history"
)

// Names of the files of a process.
func eventsFile(dir string, proc int) string {
	return filepath.Join(dir, fmt.Sprintf("events-%d.jsonl", proc))
}
func opsFile(dir string, proc int) string {
	return filepath.Join(dir, fmt.Sprintf("register-%d.jsonl", proc))
}
func logFile(dir string, proc int) string {
	return filepath.Join(dir, fmt.Sprintf("proc-%d.log", proc))
}

// WorkerMain runs a process of the crew if this process was started as one, and does not return then. Every binary that runs rows
// calls it first of all.
func WorkerMain() {
	env := os.Getenv(workerEnv)
	if env == "" {
		return
	}
	if err := work(env); err != nil {
		fmt.Fprintln(os.Stderr, "faults: process of the crew:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// worker is one process of the crew.
type worker struct {
	cfg       workerConfig
	m         *fairlock.Manager
	rec       *history.Lines
	registers *registers
	calls     atomic.Int64
	deadly    atomic.Pointer[Point] // where to die, once
	stopped   chan struct{}         // closed by the order to stop
	callers   sync.WaitGroup

	mu      sync.Mutex // guards all below
	out     *json.Encoder
	resumes map[string]chan struct{} // closed to let the holder of a lock go on
}

const connectLimit = 30 * time.Second

func work(env string) (err error) {
	w := &worker{out: json.NewEncoder(os.Stdout), stopped: make(chan struct{}), resumes: map[string]chan struct{}{}}
	if err := json.Unmarshal([]byte(env), &w.cfg); err != nil {
		return err
	}
	events, err := os.OpenFile(eventsFile(w.cfg.Dir, w.cfg.Proc), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	ops, err := os.OpenFile(opsFile(w.cfg.Dir, w.cfg.Proc), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	w.rec = history.NewLines(events)
	locks, err := mongo.Connect(options.Client().ApplyURI(w.cfg.URI).
		SetMonitor(newWatch(w.cfg.Proc, w.rec, w.die).monitor()))
	if err != nil {
		return err
	}
	data, err := mongo.Connect(options.Client().ApplyURI(w.cfg.RegisterURI))
	if err != nil {
		return err
	}
	w.registers = openRegisters(data.Database(w.cfg.RegisterDB), w.cfg.Proc, ops)
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	defer cancel()
	w.m, err = fairlock.New(ctx, locks.Database(w.cfg.DB), &fairlock.Config{
		TTL: w.cfg.TTL, TicketDelay: w.cfg.TicketDelay, OpTimeout: w.cfg.OpTimeout, Label: labelOf(w.cfg.Proc),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	w.say(report{Op: "ready"})
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var o order
		if in.Decode(&o) != nil {
			os.Exit(1) // whoever started it is gone; the lease ends what is held
		}
		if o.Op == "close" {
			return w.close(locks, data)
		}
		w.obey(o)
	}
}

func (w *worker) obey(o order) {
	switch o.Op {
	case "begin":
		for i := range w.cfg.Callers {
			w.callers.Go(func() { w.loop(i) })
		}
	case "hold":
		resume := make(chan struct{})
		w.mu.Lock()
		w.resumes[o.Lock] = resume
		w.mu.Unlock()
		w.callers.Go(func() { w.hold(o.Lock, resume) })
	case "want":
		w.callers.Go(func() { w.turn(context.Background(), w.whole(o.Lock), false) })
	case "resume":
		w.mu.Lock()
		close(w.resumes[o.Lock])
		w.mu.Unlock()
	case "die":
		w.deadly.Store(&o.Point)
	case "stats":
		w.say(report{Op: "stats", Stats: w.m.Stats()})
	case "stop":
		close(w.stopped)
		go func() {
			w.callers.Wait()
			w.say(report{Op: "stopped", Stats: w.m.Stats()})
		}()
	}
}

// close ends the process in order: nothing of it is left in the database.
func (w *worker) close(clients ...*mongo.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	defer cancel()
	err := w.m.Close(ctx)
	for _, c := range clients {
		if derr := c.Disconnect(ctx); derr != nil {
			err = errors.Join(err, derr)
		}
	}
	err = errors.Join(err, w.rec.Err())
	r := report{Op: "closed", Stats: w.m.Stats()}
	if err != nil {
		r.Err = err.Error()
	}
	w.say(r)
	return nil
}

func (w *worker) say(r report) {
	if r.At == 0 {
		r.At = clock.System.Now()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(r)
}

// die kills the process if it was ordered to die at this point. The first who comes by does it; nobody else of the process runs after
// the kernel has the signal.
func (w *worker) die(at Point, lock string) {
	p := w.deadly.Load()
	if p == nil || *p != at || !w.deadly.CompareAndSwap(p, nil) {
		return
	}
	now := clock.System.Now()
	w.rec.Record(history.Event{Kind: history.Killed, At: now, Proc: w.cfg.Proc, Lock: lock})
	w.say(report{Op: "dying", At: now, Lock: lock})
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}
