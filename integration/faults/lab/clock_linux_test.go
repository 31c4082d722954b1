package lab_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock/integration/faults/lab"
	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/replset"
)

// told is what a process thinks of the time.
type told struct {
	Wall      time.Time
	Monotonic time.Duration // since its start
	Boot      clock.Instant
}

// tellTime answers each line with the time, while other goroutines do nothing but ask for it.
func tellTime() error {
	start := time.Now()
	for range 3 {
		go func() {
			for {
				_ = time.Now()
			}
		}()
	}
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		now := time.Now()
		if err := out.Encode(told{Wall: now.Round(0), Monotonic: now.Sub(start), Boot: clock.System.Now()}); err != nil {
			return err
		}
	}
	return nil
}

// TestWallClock moves the clock of a running Go program that asks for the time all the while. Its other clocks go on.
func TestWallClock(t *testing.T) {
	t.Parallel()
	child := startChild(t, "clock")
	var before told
	child.ask(&before)
	near := func(got told, offset time.Duration) {
		t.Helper()
		require.WithinDuration(t, time.Now().Add(offset), got.Wall, 5*time.Second)
		require.Less(t, got.Monotonic-before.Monotonic, time.Minute)
		require.GreaterOrEqual(t, got.Monotonic, before.Monotonic)
		require.Less(t, clock.System.Now().Sub(got.Boot).Abs(), 5*time.Second)
	}
	near(before, 0)
	c, err := lab.NewWallClock(child.cmd.Process.Pid)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for _, offset := range []time.Duration{0, time.Hour, -time.Hour, 0, -45 * time.Second} {
		require.NoError(t, c.Set(offset))
		var got told
		child.ask(&got)
		near(got, offset)
	}
	require.ErrorContains(t, c.Set(time.Millisecond), "whole seconds")

	// Made again, it begins at 0.
	again, err := lab.NewWallClock(child.cmd.Process.Pid)
	require.NoError(t, err)
	defer func() { require.NoError(t, again.Close()) }()
	var got told
	child.ask(&got)
	near(got, 0)
	require.NoError(t, again.Set(time.Hour))
	child.ask(&got)
	near(got, time.Hour)

	// Only that process.
	other := startChild(t, "clock")
	other.ask(&got)
	require.WithinDuration(t, time.Now(), got.Wall, 5*time.Second)
}

func TestWallClockOfNobody(t *testing.T) {
	t.Parallel()
	_, err := lab.NewWallClock(99999999)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestServerClock moves the clock of a mongod.
func TestServerClock(t *testing.T) {
	t.Parallel()
	c, err := lab.NewServerClock(t.TempDir())
	require.NoError(t, err)
	set := replset.ForTest(t, replset.Options{Members: 1, Launch: func(_ int, cmd *exec.Cmd) error {
		c.Apply(cmd)
		return cmd.Start()
	}})
	client, err := mongo.Connect(options.Client().ApplyURI(set.URI()))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	defer func() { require.NoError(t, client.Disconnect(ctx)) }()
	localTime := func() time.Time {
		var hello struct{ LocalTime time.Time }
		require.NoError(t, client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello))
		return hello.LocalTime
	}
	for _, offset := range []time.Duration{0, time.Hour, -time.Hour, -45 * time.Second, 0} {
		require.NoError(t, c.Set(offset))
		require.Eventually(t, func() bool {
			return localTime().Sub(time.Now().Add(offset)).Abs() < 5*time.Second
		}, limit, 10*time.Millisecond)
	}
	begin := time.Now()
	for range 20 {
		localTime()
	}
	t.Logf("an operation takes %v", time.Since(begin)/20)
	left, err := filepath.Glob(fmt.Sprintf("/proc/1/root/dev/shm/*faketime*%d", set.Members()[0].PID()))
	require.NoError(t, err)
	require.Empty(t, left)
}
