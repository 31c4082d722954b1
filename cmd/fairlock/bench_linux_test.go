package main

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// startBench starts a bench that goes on for an hour. It returns when its workers hand a lock on.
func startBench(b *bench) (p *proc, db *mongo.Database, workers []int) {
	b.Helper()
	db = deployment.client.Database("bench-" + b.db.Name())
	b.Cleanup(func() { require.NoError(b, db.Drop(b.ctx())) })
	p = b.start("bench", "--db", db.Name(), "--duration", "1h", "--processes", "3")
	b.eventually(func() bool {
		n, err := db.Collection("fairlock.locks").CountDocuments(b.ctx(), bson.D{{Key: "_id", Value: "handoff"}})
		return err == nil && n == 1
	}, "the lock")
	workers = childrenOf(p.cmd.Process.Pid)
	require.Len(b, workers, 3)
	return p, db, workers
}

// empty reports whether nothing is in the database.
func (b *bench) empty(db *mongo.Database) bool {
	names, err := db.ListCollectionNames(b.ctx(), bson.D{})
	require.NoError(b, err)
	return len(names) == 0
}

// TestBenchInterrupted: it leaves nothing.
func TestBenchInterrupted(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			b := newBench(t)
			p, db, workers := startBench(b)
			p.signal(sig)
			p.exits(exitSignal + int(sig))
			require.Empty(t, p.errors())
			require.True(t, b.empty(db))
			for _, pid := range workers {
				require.False(t, alive(pid))
			}
		})
	}
}

// TestBenchWorkerDies: that is told, and the rest ends in order.
func TestBenchWorkerDies(t *testing.T) {
	b := newBench(t)
	p, db, workers := startBench(b)
	require.NoError(t, syscall.Kill(workers[1], syscall.SIGKILL))
	p.exits(exitInternal)
	require.Regexp(t, `worker \d: .*signal: killed`, p.errors())
	require.True(t, b.empty(db))
	for _, pid := range workers {
		require.False(t, alive(pid))
	}
}

// TestBenchKilled: the workers end by themselves; what is left is told to the next one, which does not touch it.
func TestBenchKilled(t *testing.T) {
	b := newBench(t)
	p, db, workers := startBench(b)
	p.signal(syscall.SIGKILL)
	p.exits(-1)
	for _, pid := range workers {
		b.eventually(func() bool { return !alive(pid) }, "the worker's end")
	}
	next := b.start("bench", "--db", db.Name(), "--duration", "1s")
	next.exits(exitUsage)
	require.Contains(t, next.errors(), "is in use by another bench, or one was killed and has left it")
	require.False(t, b.empty(db))
}
