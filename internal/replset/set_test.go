//go:build linux || darwin

package replset_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/fairlock/fairlock/internal/replset"
)

// long is far more than any step takes, so that only a hang runs into it.
const long = 4 * time.Minute

func testCtx(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	t.Cleanup(cancel)
	return ctx
}

func collection(t *testing.T, uri string) *mongo.Collection {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	require.NoError(t, err)
	t.Cleanup(func() {
		// With the servers gone, ending the sessions would be tried for 30 s.
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = client.Disconnect(ctx)
	})
	return client.Database("replset_test").Collection("c",
		options.Collection().SetWriteConcern(writeconcern.Majority()))
}

func insert(t *testing.T, c *mongo.Collection, id int) {
	t.Helper()
	_, err := c.InsertOne(testCtx(t), bson.D{{Key: "_id", Value: id}})
	require.NoError(t, err)
}

// TestReplicaSet hurts one set in every way there is, beginning with the kill of
// the primary right after Start (I3).
func TestReplicaSet(t *testing.T) {
	t.Parallel()
	ctx := testCtx(t)
	begin := time.Now()
	s, err := replset.Start(ctx, replset.Options{ElectionTimeout: 2 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	t.Logf("start of three: %v", time.Since(begin))

	require.Len(t, s.Members(), 3)
	first, err := s.Primary(ctx)
	require.NoError(t, err)
	begin = time.Now()
	require.NoError(t, first.Kill())
	require.NoError(t, first.Kill(), "killing the dead is no error")
	require.False(t, first.Alive())
	require.ErrorIs(t, first.Pause(), replset.ErrNotRunning)

	second, err := s.WaitPrimary(ctx)
	require.NoError(t, err)
	t.Logf("failover with an election timeout of 2s: %v", time.Since(begin))
	require.NotEqual(t, first.Addr(), second.Addr())
	c := collection(t, s.URI())
	insert(t, c, 1)

	oldPID := first.PID()
	require.NoError(t, first.Restart(ctx))
	require.NotEqual(t, oldPID, first.PID())
	require.NoError(t, s.WaitHealthy(ctx))
	secondaries, err := s.Secondaries(ctx)
	require.NoError(t, err)
	require.Len(t, secondaries, 2)

	// A step-down needs no election timeout.
	leader, err := s.Primary(ctx)
	require.NoError(t, err)
	begin = time.Now()
	require.NoError(t, s.StepDown(ctx, 60))
	third, err := s.WaitPrimary(ctx)
	require.NoError(t, err)
	t.Logf("step-down to the next majority write: %v", time.Since(begin))
	require.NotEqual(t, leader.Addr(), third.Addr())
	insert(t, c, 2)

	// A frozen primary is replaced; thawed, it must not be taken for the primary.
	require.NoError(t, s.WaitHealthy(ctx))
	require.NoError(t, third.Pause())
	require.True(t, third.Alive())
	fourth, err := s.WaitPrimary(ctx)
	require.NoError(t, err)
	require.NotEqual(t, third.Addr(), fourth.Addr())
	require.NoError(t, third.Resume())
	now, err := s.WaitPrimary(ctx)
	require.NoError(t, err)
	require.Equal(t, fourth.Addr(), now.Addr())
	require.NoError(t, s.WaitHealthy(ctx))
	insert(t, c, 3)
	n, err := c.CountDocuments(ctx, bson.D{})
	require.NoError(t, err)
	require.EqualValues(t, 3, n)

	// Without a majority there is no primary, and the caller learns why.
	for _, m := range s.Members() {
		if m != now {
			require.NoError(t, m.Pause())
		}
	}
	short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, err = s.WaitPrimary(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Error(t, s.WaitHealthy(short))

	pids := []int{s.GuardPID()}
	for _, m := range s.Members() {
		pids = append(pids, m.PID())
		group, err := syscall.Getpgid(m.PID())
		require.NoError(t, err)
		require.NotEqual(t, syscall.Getpgrp(), group, "Ctrl-C must not reach mongod")
	}
	require.NoError(t, s.Stop(ctx))
	require.NoError(t, s.Stop(ctx))
	for _, pid := range pids {
		require.True(t, gone(pid))
	}
	require.NoDirExists(t, s.Dir())
	require.ErrorIs(t, first.Restart(ctx), replset.ErrStopped)
	_, err = s.WaitPrimary(ctx)
	require.ErrorIs(t, err, replset.ErrStopped)
}

func TestStandalone(t *testing.T) {
	t.Parallel()
	ctx := testCtx(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := replset.ForTest(t, replset.Options{
		Standalone:    true,
		Dir:           dir,
		SetParameters: map[string]string{"ttlMonitorSleepSecs": "7"},
	})
	require.Contains(t, s.URI(), "directConnection=true")
	m, err := s.WaitPrimary(ctx)
	require.NoError(t, err)

	c := collection(t, s.URI())
	insert(t, c, 1)
	var got struct {
		Sleep int `bson:"ttlMonitorSleepSecs"`
	}
	admin := c.Database().Client().Database("admin")
	require.NoError(t, admin.RunCommand(ctx, bson.D{
		{Key: "getParameter", Value: 1}, {Key: "ttlMonitorSleepSecs", Value: 1},
	}).Decode(&got))
	require.Equal(t, 7, got.Sleep)
	_, err = c.Watch(ctx, mongo.Pipeline{})
	require.Error(t, err, "a standalone server has no change streams")

	require.NoError(t, m.Restart(ctx))
	require.NoError(t, s.WaitHealthy(ctx))
	n, err := c.CountDocuments(ctx, bson.D{})
	require.NoError(t, err)
	require.EqualValues(t, 1, n)

	require.ErrorIs(t, s.StepDown(ctx, 1), replset.ErrStandalone)
	_, err = s.Secondaries(ctx)
	require.ErrorIs(t, err, replset.ErrStandalone)

	require.NoError(t, s.Stop(ctx))
	require.FileExists(t, filepath.Join(dir, "m0", "mongod.log"), "the caller's folder is left alone")
	_, err = replset.Start(ctx, replset.Options{Standalone: true, Dir: dir})
	require.ErrorIs(t, err, replset.ErrOptions, "a folder is used once")
}

// TestPortTaken lets somebody listen on the first port picked (I5).
func TestPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	picks := 0
	s, err := replset.StartOnPorts(testCtx(t), replset.Options{Members: 1}, func() (int, error) {
		if picks++; picks == 1 {
			return l.Addr().(*net.TCPAddr).Port, nil
		}
		return replset.PickPort()
	})
	require.NoError(t, err)
	require.NoError(t, s.Stop(context.Background()))
	require.Equal(t, 2, picks)
	require.NotEqual(t, l.Addr().String(), s.Members()[0].Addr())
}

// TestStartFails checks I4. It cannot be parallel: it looks at the temporary folder.
func TestStartFails(t *testing.T) {
	_, err := replset.Find(testCtx(t), nil) // so that the time below is not a download's
	require.NoError(t, err)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	empty := func() {
		t.Helper()
		left, err := filepath.Glob(filepath.Join(tmp, "*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}

	_, err = replset.Start(testCtx(t), replset.Options{Members: 1, Args: []string{"--noSuchOption"}})
	var failed *replset.StartError
	require.ErrorAs(t, err, &failed)
	require.Contains(t, failed.Log, "noSuchOption")
	require.Contains(t, err.Error(), "noSuchOption")
	empty()

	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = replset.Start(ctx, replset.Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	empty()
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]replset.Options{
		"two members":          {Members: 2},
		"standalone of three":  {Members: 3, Standalone: true},
		"name":                 {Name: "a/b"},
		"election timeout":     {ElectionTimeout: time.Microsecond},
		"negative election":    {ElectionTimeout: -time.Second},
		"oplog":                {OplogMB: -1},
		"cache":                {CacheMB: 1},
		"dir that holds files": {Dir: "."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := replset.Start(testCtx(t), o)
			require.ErrorIs(t, err, replset.ErrOptions)
		})
	}
}

func TestFromEnvOrStart(t *testing.T) {
	t.Setenv(replset.EnvURI, "mongodb://somewhere")
	uri, set, err := replset.FromEnvOrStart(testCtx(t), replset.Options{})
	require.NoError(t, err)
	require.Equal(t, "mongodb://somewhere", uri)
	require.Nil(t, set)
	require.NoError(t, set.Stop(testCtx(t)), "a nil set stops")

	t.Setenv(replset.EnvURI, "")
	uri, set, err = replset.FromEnvOrStart(testCtx(t), replset.Options{Members: 1, Name: "rs-1"})
	require.NoError(t, err)
	require.Equal(t, set.URI(), uri)
	require.True(t, strings.HasSuffix(uri, "/?replicaSet=rs-1"), uri)
	insert(t, collection(t, uri), 1)
	require.NoError(t, set.Stop(testCtx(t)))
}

// TestGuardKilled: servers without a watcher are not kept.
func TestGuardKilled(t *testing.T) {
	t.Parallel()
	s, err := replset.Start(testCtx(t), replset.Options{Standalone: true})
	require.NoError(t, err)
	m := s.Members()[0]
	require.NoError(t, syscall.Kill(s.GuardPID(), syscall.SIGKILL))
	require.Eventually(t, func() bool { return !m.Alive() }, long, 10*time.Millisecond)
	require.ErrorIs(t, m.Restart(testCtx(t)), replset.ErrStopped)
	require.NoError(t, s.Stop(testCtx(t)))
	_, err = os.Stat(s.Dir())
	require.ErrorIs(t, err, os.ErrNotExist)
}
