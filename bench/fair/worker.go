package fair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/bench/contend"
)

// Subcommand is the first argument by which a binary of the harness becomes a worker; the second is the address of the server, the third
// the lock's name, the fourth the permits of the semaphore that it is, 0 for a mutex.
const Subcommand = "worker"

// order is a line that the harness writes to a worker.
type order struct {
	Op     string        // lock, unlock, pair, combine, crowd, cpu, bye
	N      int           // goroutines; of lock the permits to take, 0 for one
	For    time.Duration // of combine
	Holder int64         // token of the holder, for crowd
}

// report is a line that a worker writes.
type report struct {
	Op     string // ready, queued, locked, and the order's own when it has been done
	At     int64  // stamp: of the grant, or right before Unlock
	Took   time.Duration
	N      int64
	Token  int64
	Memory memory
	Err    string
}

// Main is a worker process. It returns the exit status.
func Main(args []string) int {
	signal.Ignore(os.Interrupt) // the harness says when to end
	if len(args) != 3 {
		fmt.Fprintf(os.Stderr, "bench: worker has %d arguments, needs address, lock and permits\n", len(args))
		return 2
	}
	permits, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: worker: permits:", err)
		return 2
	}
	w := &worker{lock: args[1], permits: permits, out: json.NewEncoder(os.Stdout)}
	if err := w.serve(context.Background(), args[0], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "bench: worker:", err)
		return 1
	}
	return 0
}

type worker struct {
	lock    string
	permits int64 // 0: a mutex
	f       *contend.Fair
	crowd   crowd
	pending sync.WaitGroup // locks that are waited for
	single  atomic.Bool    // a lock was ordered, so that replies to enqueues are worth a report

	mu  sync.Mutex // guards out
	out *json.Encoder
}

func (w *worker) say(r report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(r) // the harness is gone: so is stdin
}

// serve obeys until it is told to end. When the input ends first, the harness is gone and the server with it, and there is nothing to
// give back.
func (w *worker) serve(ctx context.Context, target string, in io.Reader) error {
	opening, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var err error
	w.f, err = contend.OpenFairlock(opening, target, w.lock, w.permits, func() {
		if w.single.Load() {
			w.say(report{Op: "queued"})
		}
	})
	if err != nil {
		return err
	}
	w.say(report{Op: "ready"})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	orders := json.NewDecoder(in)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return fmt.Errorf("the harness is gone: %w", err)
		}
		if o.Op == "bye" {
			stop()
			w.crowd.leave()
			w.pending.Wait()
			closing, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_, err := w.f.Close(closing)
			return err
		}
		w.obey(ctx, o)
	}
}

func (w *worker) obey(ctx context.Context, o order) {
	r := report{Op: o.Op}
	var err error
	switch o.Op {
	case "lock": // which is waited for, while other orders come
		w.single.Store(true)
		w.pending.Go(func() {
			g, err := w.f.Take(ctx, int64(max(o.N, 1)))
			r := report{Op: "locked", At: contend.Stamp(), Token: g.Token}
			if err != nil {
				r.Err = err.Error()
			}
			w.say(r)
		})
		return
	case "unlock":
		r.At = contend.Stamp()
		err = w.f.Unlock(ctx)
	case "pair":
		began := contend.Stamp()
		if _, err = w.f.Lock(ctx); err == nil {
			err = w.f.Unlock(ctx)
		}
		r.Took = time.Duration(contend.Stamp() - began)
	case "combine":
		r.N, r.Took, err = w.combine(ctx, o.N, o.For)
	case "crowd":
		r.Memory, err = w.crowd.gather(ctx, w.f.Manager(), w.lock, o.N, o.Holder)
	case "cpu":
		r.Took = cpu()
	default:
		err = fmt.Errorf("order %q is unknown", o.Op)
	}
	if err != nil {
		r.Err = err.Error()
	}
	w.say(r)
}

// combine takes and leaves the lock in n goroutines for d. It returns how often, and how long it took.
func (w *worker) combine(ctx context.Context, n int, d time.Duration) (int64, time.Duration, error) {
	began := contend.Stamp()
	end := began + d.Nanoseconds()
	counts, errs := make([]int64, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for errs[i] == nil && contend.Stamp() < end {
				errs[i] = w.f.Manager().Do(ctx, w.lock, func(context.Context) error { return nil })
				counts[i]++
			}
		})
	}
	wg.Wait()
	took := time.Duration(contend.Stamp() - began)
	var sum int64
	for _, c := range counts {
		sum += c
	}
	return sum, took, errors.Join(errs...)
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
