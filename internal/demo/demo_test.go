package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock/internal/measure"
	"github.com/fairlock/fairlock/internal/replset"
)

// staff makes workers and remembers them.
type staff struct {
	mu  sync.Mutex // guards all
	all []*exec.Cmd
}

func (s *staff) hire() *exec.Cmd {
	s.mu.Lock()
	defer s.mu.Unlock()
	cmd := workerCommand()
	s.all = append(s.all, cmd)
	return cmd
}

// requireGone: each was waited for, so none is left, not even as a zombie.
func (s *staff) requireGone(t *testing.T, want int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.all, want)
	for _, cmd := range s.all {
		require.NotNil(t, cmd.ProcessState)
	}
}

func small(view View, s *staff) Options {
	return Options{
		DB: "fairlock_demo_test", Prefix: "t.", Workers: 3, Goroutines: 2, Invoices: 60, TTL: 2 * time.Second, Hold: 2 * time.Millisecond,
		Seed: 1, Kill: true, StepDown: true, View: view, Worker: s.hire,
	}
}

// TestDemo is the whole of it, smaller: real servers, real processes, both kills, a step-down, all proofs.
func TestDemo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // a first run downloads mongod
	defer cancel()
	var out bytes.Buffer
	var workers staff
	s, err := Run(ctx, small(NewJSON(&out), &workers))
	require.NoError(t, err, out.String())
	require.True(t, s.OK, out.String())
	require.Len(t, s.Proofs, 10)
	workers.requireGone(t, s.Processes)

	require.GreaterOrEqual(t, s.Processes, 3+2, "two were killed and replaced")
	require.GreaterOrEqual(t, s.Acquisitions, 60)
	require.Equal(t, []string{KillHolder, KillWaiter, StepDown}, []string{s.Disturbances[0].Kind, s.Disturbances[1].Kind, s.Disturbances[2].Kind})
	holder, waiter, down := s.Disturbances[0], s.Disturbances[1], s.Disturbances[2]
	require.NotZero(t, holder.Token)
	require.Positive(t, holder.Recovery)
	require.Positive(t, waiter.Recovery)
	require.Positive(t, waiter.Gap)
	require.Positive(t, down.Gap)
	// The lease has to run out; how long that takes beyond it depends on the machine.
	require.Greater(t, holder.Recovery, s.TTL/3)
	require.Less(t, holder.Recovery, s.TTL+20_000)
	require.GreaterOrEqual(t, holder.Gap, holder.Recovery)

	require.NotEmpty(t, s.Repaired, "the holder was killed between its two writes")
	require.Positive(t, s.Unused, "the waiter's numbers")
	require.Positive(t, s.Floor.P50)
	require.Positive(t, s.Handoff.N)
	require.Positive(t, s.PerAcquisition.LockWrites)
	require.InDelta(t, 2, s.PerAcquisition.LedgerWrites, 0.5)

	var last struct {
		Type string
		OK   bool
		Run  string
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, line := range lines {
		require.NoError(t, json.Unmarshal([]byte(line), &last), line)
	}
	require.Equal(t, "summary", last.Type)
	require.True(t, last.OK)
	require.Equal(t, s.Run, last.Run)
}

// TestDemoCancelled: a run that is interrupted in the middle leaves no process behind.
func TestDemoCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	enough := errors.New("enough")
	var workers staff
	o := small(nil, &workers)
	o.StepDown = false
	o.View = &hook{View: NewPlain(io.Discard), note: func(n Note) {
		if n.Kind == NoteKillHolder {
			cancel(enough)
		}
	}}
	_, err := Run(ctx, o)
	require.ErrorIs(t, err, enough)
	workers.requireGone(t, 4)
}

// TestDemoTampered: a ledger that somebody else writes to is found out, on a deployment that was given; and nothing stays there.
func TestDemoTampered(t *testing.T) {
	t.Parallel()
	set := replset.ForTest(t, replset.Options{Members: 1})
	client, err := mongo.Connect(options.Client().ApplyURI(set.URI()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Disconnect(context.Background())) })
	db := client.Database("fairlock_demo_test")

	for name, c := range map[string]struct {
		tamper func(t *testing.T, rows *mongo.Collection)
		says   string
	}{
		"a row is changed": {func(t *testing.T, rows *mongo.Collection) {
			res, err := rows.UpdateByID(t.Context(), 1, bson.D{{Key: "$inc", Value: bson.D{{Key: "amount", Value: int64(1)}}}})
			require.NoError(t, err)
			require.EqualValues(t, 1, res.ModifiedCount)
		}, "unbroken chain"},
		"a row is deleted": {func(t *testing.T, rows *mongo.Collection) {
			_, err := rows.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: 2}})
			require.NoError(t, err)
		}, "no gap"},
		// The next to read the head finds it, also one who has read it before: its commit is refused.
		"the head is moved": {func(t *testing.T, rows *mongo.Collection) {
			head := rows.Database().Collection(strings.TrimSuffix(rows.Name(), "ledger") + "head")
			_, err := head.UpdateByID(t.Context(), headID, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: int64(5)}}}})
			require.NoError(t, err)
		}, errCorrupt.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			var workers staff
			o := small(nil, &workers)
			o.URI, o.Kill, o.StepDown, o.Hold = set.URI(), false, false, 20*time.Millisecond
			done := false
			o.View = &hook{View: NewPlain(&out), status: func(s Status) {
				if s.Rows < 5 || done {
					return
				}
				done = true
				names, err := db.ListCollectionNames(t.Context(), bson.D{{Key: "name", Value: bson.Regex{Pattern: "ledger$"}}})
				require.NoError(t, err)
				require.Len(t, names, 1)
				c.tamper(t, db.Collection(names[0]))
			}}
			s, err := Run(t.Context(), o)
			if err != nil {
				require.ErrorIs(t, err, ErrFailed)
				require.ErrorContains(t, err, c.says)
			} else {
				require.False(t, s.OK)
				require.Contains(t, s.failed(), c.says)
				require.Contains(t, out.String(), "FAIL "+c.says)
			}
			workers.requireGone(t, 3)
			names, err := db.ListCollectionNames(t.Context(), bson.D{})
			require.NoError(t, err)
			require.Empty(t, names)
		})
	}
}

// hook is a view that something is listening in on.
type hook struct {
	View
	note   func(Note)
	status func(Status)
}

func (h *hook) Note(n Note) {
	if h.note != nil {
		h.note(n)
	}
	h.View.Note(n)
}

func (h *hook) Status(s Status) {
	if h.status != nil {
		h.status(s)
	}
	h.View.Status(s)
}

// TestDemoWorkerFails: a worker that ends by itself ends the run, and what it said last is in the error.
func TestDemoWorkerFails(t *testing.T) {
	t.Parallel()
	o := small(NewPlain(io.Discard), &staff{})
	o.Worker = func() *exec.Cmd { return exec.Command("sh", "-c", "echo out of order >&2; exit 7") }
	c := newCrew(&o, config{Invoices: make([]Invoice, 60)}, nil, measure.Stamp(), o.View.Note)
	err := c.run(t.Context(), func(*crew) {})
	require.ErrorContains(t, err, "ended by itself")
	require.ErrorContains(t, err, "exit status 7")
	require.ErrorContains(t, err, "out of order")
	require.Zero(t, c.live)
}

// TestWorkerDiesWithParent: the end of stdin is the end of a worker, whatever it is doing; here, looking for a server.
func TestWorkerDiesWithParent(t *testing.T) {
	t.Parallel()
	cmd := workerCommand()
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, json.NewEncoder(stdin).Encode(config{
		Worker: 1, Goroutines: 1, URI: "mongodb://127.0.0.1:1", DB: "d", Prefix: "p.", TTL: 3 * time.Second, Invoices: []Invoice{{"A", 1}},
	}))
	require.NoError(t, stdin.Close())
	begin := time.Now()
	require.Error(t, cmd.Wait())
	require.Less(t, time.Since(begin), connectLimit/2)
}
