package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/fence"
)

// fencedEnv makes the test binary a process that holds locks and writes late; its value is a fencedConfig.
const fencedEnv = "FAIRLOCK_TEST_FENCED"

type fencedConfig struct {
	URI, DB string
	TTL     time.Duration
	Locks   []string
}

// fencedReport is a line that such a process writes: it has its locks, or has made its late writes.
type fencedReport struct {
	Op     string // held, written, closed
	Err    string
	Tokens map[string]int64
	Late   []lateWrite
}

// lateWrite is a write of a holder that did not ask, and what became of it.
type lateWrite struct {
	Lock          string
	InTransaction bool
	Stale         bool
	Token, Seen   int64
	Err           string
	Lost          bool // Err said so, afterwards
}

func init() {
	if env := os.Getenv(fencedEnv); env != "" {
		if err := fencedMain(env); err != nil {
			fmt.Fprintln(os.Stderr, "fenced:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// fencedMain takes its locks, asks whether it holds them, and then writes whenever it is told to, without asking again: it may be stopped in
// between.
func fencedMain(env string) error {
	ctx := context.Background()
	var cfg fencedConfig
	if err := json.Unmarshal([]byte(env), &cfg); err != nil {
		return err
	}
	client, err := mongo.Connect(options.Client().ApplyURI(cfg.URI))
	if err != nil {
		return err
	}
	db := client.Database(cfg.DB)
	m, err := fairlock.New(ctx, db, &fairlock.Config{TTL: cfg.TTL, TicketDelay: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	locks, tokens := make([]*fairlock.Lock, len(cfg.Locks)), map[string]int64{}
	var all errgroup.Group
	for i, name := range cfg.Locks {
		all.Go(func() (err error) {
			locks[i], err = m.Lock(ctx, name)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for i, l := range locks {
		if err := l.Err(); err != nil {
			return err
		}
		tokens[cfg.Locks[i]] = l.Token()
	}
	if err := out.Encode(fencedReport{Op: "held", Tokens: tokens}); err != nil {
		return err
	}
	orders := bufio.NewScanner(os.Stdin)
	if !orders.Scan() {
		return errors.New("nobody said when to write")
	}
	r := fencedReport{Op: "written"}
	for _, l := range locks {
		f, err := fence.New(l.Token())
		if err != nil {
			return err
		}
		for _, in := range []bool{false, true} {
			write := writeFenced
			if in {
				write = writeFencedInTransaction
			}
			w := lateWrite{Lock: l.Name(), InTransaction: in}
			err := write(ctx, f, db.Collection("own"), l.Name(), "late")
			var stale *fence.StaleError
			if w.Stale = errors.Is(err, fence.ErrStale) && errors.As(err, &stale); w.Stale {
				w.Token, w.Seen = stale.Token, stale.Seen
			}
			w.Err = fmt.Sprint(err)
			w.Lost = errors.Is(l.Err(), fairlock.ErrLost)
			r.Late = append(r.Late, w)
		}
	}
	if err := out.Encode(r); err != nil {
		return err
	}
	for _, l := range locks {
		if err := l.Unlock(ctx); !errors.Is(err, fairlock.ErrLost) {
			return fmt.Errorf("unlock of %q: %w, where it was lost", l.Name(), err)
		}
	}
	if err := m.Close(ctx); err != nil {
		return err
	}
	return out.Encode(fencedReport{Op: "closed"})
}

// writeFenced writes v into the document that a lock protects.
func writeFenced(ctx context.Context, f fence.Fence, coll *mongo.Collection, lock, v string) error {
	_, err := f.UpdateOne(ctx, coll, bson.D{{Key: "_id", Value: lock}}, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: v}}}})
	return err
}

// writeFencedInTransaction writes v into a log first, and then as writeFenced does, in one transaction.
func writeFencedInTransaction(ctx context.Context, f fence.Fence, coll *mongo.Collection, lock, v string) error {
	s, err := coll.Database().Client().StartSession()
	if err != nil {
		return err
	}
	defer s.EndSession(ctx)
	_, err = s.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		_, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: "log of " + lock}}, bson.D{{Key: "$push", Value: bson.D{{Key: "v", Value: v}}}})
		if err != nil {
			return nil, err
		}
		return nil, writeFenced(ctx, f, coll, lock, v)
	})
	return err
}

// TestFenceStopsAPausedHolder: a hundred holders in four processes are stopped between having asked whether they hold their locks and writing.
// When the next holders have got the locks and written, they go on and write, without asking again: once outside a transaction and once in
// one. All 200 writes are refused, and nothing of them is in the database.
func TestFenceStopsAPausedHolder(t *testing.T) {
	t.Parallel()
	const procs, each = 4, 25
	// All hundred must hold at the moment when they are stopped: a hundred tickets of four processes can take more than a short lease. Nothing else depends on it.
	const lease = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	defer cancel()
	b := newBed(t)
	coll := b.db.Collection("own")
	type process struct {
		cmd   *exec.Cmd
		in    interface{ Write([]byte) (int, error) }
		out   *json.Decoder
		locks []string
	}
	report := func(p *process, op string) (r fencedReport) {
		t.Helper()
		require.NoError(t, p.out.Decode(&r))
		require.Equal(t, op, r.Op)
		return r
	}
	var all []*process
	held := map[string]int64{}
	for i := range procs {
		p := &process{}
		var docs []any
		for n := range each {
			name := fmt.Sprintf("lock %d of process %d", n, i)
			p.locks = append(p.locks, name)
			docs = append(docs, bson.D{{Key: "_id", Value: name}}, bson.D{{Key: "_id", Value: "log of " + name}, {Key: "v", Value: bson.A{}}})
		}
		_, err := coll.InsertMany(ctx, docs)
		require.NoError(t, err)
		env, err := json.Marshal(fencedConfig{URI: b.uri, DB: b.db.Name(), TTL: lease, Locks: p.locks})
		require.NoError(t, err)
		p.cmd = exec.CommandContext(ctx, os.Args[0])
		p.cmd.Env = append(os.Environ(), fencedEnv+"="+string(env))
		var log strings.Builder
		p.cmd.Stderr = &log
		stdin, err := p.cmd.StdinPipe()
		require.NoError(t, err)
		stdout, err := p.cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, p.cmd.Start())
		t.Cleanup(func() {
			_ = p.cmd.Process.Kill()
			if err := p.cmd.Wait(); t.Failed() {
				t.Logf("process %d: %v: %s", i, err, log.String())
			}
		})
		p.in, p.out = stdin, json.NewDecoder(stdout)
		all = append(all, p)
	}
	for _, p := range all {
		for name, token := range report(p, "held").Tokens {
			held[name] = token
		}
	}
	require.Len(t, held, procs*each)
	// Numbers without a ticket would be waited for as long as the next holders' lease is, which is a long one.
	eventually(t, "tickets of all holders", func() bool {
		n, err := b.coll("tickets").CountDocuments(ctx, bson.D{{Key: "_id.lock", Value: bson.D{{Key: "$in", Value: slices.Collect(maps.Keys(held))}}}})
		return err == nil && n == procs*each
	})
	b.killed.Store(true) // one of them may have had the right to sweep
	for _, p := range all {
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	}

	m := b.manager(fairlock.Config{})
	var next errgroup.Group
	locks := make([]*fairlock.Lock, procs*each)
	for i := range locks {
		name := all[i/each].locks[i%each]
		next.Go(func() (err error) {
			if locks[i], err = m.Lock(ctx, name); err != nil {
				return err
			}
			f, err := fence.New(locks[i].Token())
			if err != nil {
				return err
			}
			return writeFenced(ctx, f, coll, name, "new holder")
		})
	}
	require.NoError(t, next.Wait())

	for _, p := range all {
		_, err := p.in.Write([]byte("write\n"))
		require.NoError(t, err)
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	}
	refused := map[bool]int{}
	for _, p := range all {
		for _, w := range report(p, "written").Late {
			require.True(t, w.Stale, "%+v", w)
			require.Equal(t, held[w.Lock], w.Token)
			require.True(t, w.Lost, "%+v", w)
			refused[w.InTransaction]++
		}
		report(p, "closed")
	}
	require.Equal(t, map[bool]int{false: procs * each, true: procs * each}, refused)
	for _, l := range locks {
		require.Greater(t, l.Token(), held[l.Name()])
		require.NoError(t, l.Err())
		var d struct {
			V     any
			Fence int64
		}
		require.NoError(t, coll.FindOne(ctx, bson.D{{Key: "_id", Value: l.Name()}}).Decode(&d))
		require.Equal(t, "new holder", d.V)
		require.Equal(t, l.Token(), d.Fence)
		require.NoError(t, coll.FindOne(ctx, bson.D{{Key: "_id", Value: "log of " + l.Name()}}).Decode(&d))
		require.Empty(t, d.V, "the transaction was aborted")
		require.NoError(t, l.Unlock(ctx))
	}
	t.Logf("%d late writes outside of transactions and %d in them were refused", refused[false], refused[true])
}
