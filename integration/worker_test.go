package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/clock"
)

// workerEnv makes the test binary a worker; its value is a workerConfig.
const workerEnv = "FAIRLOCK_TEST_WORKER"

type workerConfig struct {
	URI, DB     string
	TTL         time.Duration
	TicketDelay time.Duration
}

// order is a line that the test writes to a worker.
type order struct {
	Op   string // lock, unlock, err, crowd, close
	ID   int    // of the lock, chosen by the test
	Name string

	Crowd crowd // of crowd
}

// report is a line that a worker writes.
type report struct {
	Op      string // ready, granted, failed, unlocked, err, cause, crowd, closed
	Calls   []call // of crowd
	ID      int
	Token   int64
	Err     string
	IsLost  bool
	Session string
	At      clock.Instant // on the clock that all processes of the machine share
}

func workerMain() {
	var cfg workerConfig
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &cfg); err != nil {
		panic(err)
	}
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(cfg.URI))
	if err != nil {
		panic(err)
	}
	m, err := fairlock.New(ctx, client.Database(cfg.DB), &fairlock.Config{
		TTL: cfg.TTL, TicketDelay: cfg.TicketDelay, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		panic(err)
	}
	w := &workerSide{m: m, out: json.NewEncoder(os.Stdout), locks: map[int]*fairlock.Lock{}}
	w.say(report{Op: "ready"})
	in := json.NewDecoder(os.Stdin)
	for {
		var o order
		if in.Decode(&o) != nil {
			os.Exit(0) // the test is gone; the lease ends what is held
		}
		w.obey(ctx, o)
	}
}

type workerSide struct {
	m     *fairlock.Manager
	mu    sync.Mutex // guards all below
	out   *json.Encoder
	locks map[int]*fairlock.Lock
}

func (w *workerSide) say(r report) {
	r.At = clock.System.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(r)
}

func (w *workerSide) lock(id int) *fairlock.Lock {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.locks[id]
}

func (w *workerSide) obey(ctx context.Context, o order) {
	text := func(err error) (string, bool) {
		if err == nil {
			return "", false
		}
		return err.Error(), errors.Is(err, fairlock.ErrLost)
	}
	switch o.Op {
	case "lock":
		go func() {
			l, err := w.m.Lock(ctx, o.Name)
			if err != nil {
				s, lost := text(err)
				w.say(report{Op: "failed", ID: o.ID, Err: s, IsLost: lost})
				return
			}
			w.mu.Lock()
			w.locks[o.ID] = l
			w.mu.Unlock()
			w.say(report{Op: "granted", ID: o.ID, Token: l.Token(), Session: w.m.Session()})
			context.AfterFunc(l.Context(), func() {
				s, lost := text(context.Cause(l.Context()))
				w.say(report{Op: "cause", ID: o.ID, Err: s, IsLost: lost})
			})
		}()
	case "unlock":
		go func() {
			s, lost := text(w.lock(o.ID).Unlock(ctx))
			w.say(report{Op: "unlocked", ID: o.ID, Err: s, IsLost: lost})
		}()
	case "crowd":
		go func() { w.say(report{Op: "crowd", Calls: w.crowd(ctx, o.Name, o.Crowd)}) }()
	case "close":
		s, lost := text(w.m.Close(ctx))
		w.say(report{Op: "closed", Err: s, IsLost: lost})
	case "err":
		s, lost := text(w.lock(o.ID).Err())
		w.say(report{Op: "err", ID: o.ID, Err: s, IsLost: lost})
	}
}

// worker is a process of its own that takes locks.
type worker struct {
	b       *bed
	t       testing.TB
	cmd     *exec.Cmd
	in      *json.Encoder
	reports chan report
	kept    map[string][]report // came while another kind was awaited
}

// startWorker starts one and waits until it is ready. It is killed at the end of the test.
func (b *bed) startWorker(cfg workerConfig) *worker {
	b.t.Helper()
	cfg.URI, cfg.DB = b.uri, b.db.Name()
	if cfg.TicketDelay == 0 {
		cfg.TicketDelay = 100 * time.Millisecond // tests wait for tickets
	}
	env, err := json.Marshal(cfg)
	require.NoError(b.t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(env))
	cmd.Stderr = &prefixed{prefix: "worker: "}
	stdin, err := cmd.StdinPipe()
	require.NoError(b.t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(b.t, err)
	require.NoError(b.t, cmd.Start())
	w := &worker{b: b, t: b.t, cmd: cmd, in: json.NewEncoder(stdin), reports: make(chan report, 100_000), kept: map[string][]report{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(w.reports)
		dec := json.NewDecoder(bufio.NewReader(stdout))
		for {
			var r report
			if dec.Decode(&r) != nil {
				return
			}
			w.reports <- r
		}
	}()
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = stdin.Close()
		<-read
		_ = cmd.Wait()
	})
	w.await("ready")
	return w
}

type prefixed struct{ prefix string }

func (p *prefixed) Write(b []byte) (int, error) {
	if os.Getenv("FAIRLOCK_TEST_VERBOSE") != "" {
		fmt.Fprintf(os.Stderr, "%s%s", p.prefix, b)
	}
	return len(b), nil
}

func (w *worker) order(op string, id int, name string) {
	w.t.Helper()
	require.NoError(w.t, w.in.Encode(order{Op: op, ID: id, Name: name}))
}

// await returns the oldest report of a kind that has not been returned yet.
func (w *worker) await(op string) report {
	w.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for len(w.kept[op]) == 0 {
		select {
		case r, ok := <-w.reports:
			require.True(w.t, ok, "worker ended, waiting for %q", op)
			w.kept[r.Op] = append(w.kept[r.Op], r)
		case <-timer.C:
			require.Fail(w.t, "worker did not report "+op)
		}
	}
	r := w.kept[op][0]
	w.kept[op] = w.kept[op][1:]
	return r
}

func (w *worker) signal(s syscall.Signal) {
	w.t.Helper()
	if s == syscall.SIGKILL {
		w.b.killed.Store(true)
	}
	require.NoError(w.t, w.cmd.Process.Signal(s))
}
