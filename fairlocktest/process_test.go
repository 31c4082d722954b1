package fairlocktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

// begin makes a call in a goroutine of its own and waits until nothing moves.
func begin(t *testing.T, m *fairlock.Manager, name string, opts ...fairlock.Option) <-chan *fairlock.Lock {
	got := make(chan *fairlock.Lock, 1) // one result
	go func() {
		defer close(got)
		l, err := m.Lock(t.Context(), name, opts...)
		if err == nil {
			got <- l
		}
	}()
	synctest.Wait()
	return got
}

func lock(t *testing.T, m *fairlock.Manager, name string, opts ...fairlock.Option) *fairlock.Lock {
	t.Helper()
	l, err := m.Lock(t.Context(), name, opts...)
	require.NoError(t, err)
	return l
}

func requireLost(t *testing.T, err error, why fairlock.LossReason) {
	t.Helper()
	var lost *fairlock.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, why.String(), lost.Reason.String())
}

func TestPausedHolderBelievesUntilItGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewServer()
		p, q := s.Process(t, nil), s.Process(t, nil)
		l := lock(t, p.Manager, "x")
		p.Pause()
		p.Pause() // again
		began := time.Now()
		other := lock(t, q.Manager, "x")
		require.Greater(t, time.Since(began), 20*time.Second, "a lease")
		require.Less(t, time.Since(began), 60*time.Second)
		require.Greater(t, other.Token(), l.Token())
		require.NoError(t, l.Err(), "it knows nothing yet")
		require.NoError(t, l.Context().Err())
		p.Resume()
		requireLost(t, l.Err(), fairlock.LostLease)
		require.NoError(t, other.Err())
		require.NoError(t, other.Unlock(t.Context()))
		require.ErrorIs(t, l.Unlock(t.Context()), fairlock.ErrLost)
		p.Resume() // again
		again := lock(t, p.Manager, "x")
		require.NoError(t, again.Unlock(t.Context()))
	})
}

// TestShortPauseCostsNothing: less than what a lease has left.
func TestShortPauseCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewServer()
		p, q := s.Process(t, nil), s.Process(t, nil)
		l := lock(t, p.Manager, "x")
		next := begin(t, q.Manager, "x")
		p.Pause()
		time.Sleep(10 * time.Second)
		p.Resume()
		time.Sleep(time.Hour)
		require.NoError(t, l.Err())
		require.Empty(t, next)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, (<-next).Unlock(t.Context()))
	})
}

func TestCallsOfAPausedProcessComeBackAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewServer().Process(t, nil)
		p.Pause()
		got := begin(t, p.Manager, "x")
		time.Sleep(time.Minute)
		require.Empty(t, got)
		p.Resume()
		require.NoError(t, (<-got).Unlock(t.Context()))
	})
}

func TestSuspendLosesTheLockAtOnce(t *testing.T) {
	t.Parallel()
	for _, in := range []struct {
		name string
		run  func(*testing.T, func(*testing.T))
	}{
		{"in a bubble", synctest.Test},
		{"in real time", func(t *testing.T, f func(*testing.T)) { f(t) }},
	} {
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			in.run(t, func(t *testing.T) {
				s := NewServer()
				cfg := &fairlock.Config{TTL: time.Second}
				p, q := s.Process(t, cfg), s.Process(t, cfg)
				l := lock(t, p.Manager, "x")
				under := l.Context()
				p.Suspend(time.Second)
				requireLost(t, l.Err(), fairlock.LostLease)
				<-under.Done()
				requireLost(t, context.Cause(under), fairlock.LostLease)
				other := lock(t, q.Manager, "x") // although it was not unlocked
				require.NoError(t, other.Unlock(t.Context()))
				require.ErrorIs(t, l.Unlock(t.Context()), fairlock.ErrLost)
				require.NoError(t, lock(t, p.Manager, "y").Unlock(t.Context()), "the process goes on")
			})
		})
	}
}

func TestCutOffHolderIsToldBeforeOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewServer()
		p, q := s.Process(t, nil), s.Process(t, nil)
		l := lock(t, p.Manager, "x")
		next := begin(t, q.Manager, "x")
		time.Sleep(10 * time.Second) // until its ticket stands: one without is lost for want of that
		p.Cut()
		began := time.Now()
		<-l.Context().Done()
		told := time.Since(began)
		require.NoError(t, (<-next).Unlock(t.Context()))
		require.GreaterOrEqual(t, time.Since(began)-told, 3*time.Second, "Config.Margin")
		requireLost(t, l.Err(), fairlock.LostLease)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := p.Lock(ctx, "x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = p.Inspect(t.Context(), "x")
		require.ErrorIs(t, err, ErrCut)
		p.Heal()
		p.Heal()
		require.NoError(t, lock(t, p.Manager, "x").Unlock(t.Context()))
	})
}

func TestFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewServer().Process(t, nil)
		broken := errors.New("broken")
		p.Fail(broken)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Lock(ctx, "x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, broken)
		_, err = p.Inspect(t.Context(), "x")
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, "View: broken")
		p.Fail(fairlock.ErrMalformed)
		_, err = p.Lock(t.Context(), "x")
		require.ErrorIs(t, err, fairlock.ErrMalformed)
		p.Heal()
		require.NoError(t, lock(t, p.Manager, "x").Unlock(t.Context()))
	})
}

func TestKill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewServer()
		p, q := s.Process(t, nil), s.Process(t, nil)
		l := lock(t, p.Manager, "x")
		waits := begin(t, p.Manager, "x")
		p.Pause() // also of a process that stands still
		blocked := begin(t, p.Manager, "y")
		began := time.Now()
		p.Kill()
		p.Kill()
		require.Zero(t, time.Since(began), "it waits for nothing")
		require.Nil(t, <-waits)
		require.Nil(t, <-blocked)
		requireLost(t, l.Err(), fairlock.LostClosed)
		_, err := p.Lock(t.Context(), "x")
		require.ErrorIs(t, err, fairlock.ErrClosed)
		other := lock(t, q.Manager, "x")
		require.Greater(t, time.Since(began), 20*time.Second, "nothing was given back")
		require.NoError(t, other.Unlock(t.Context()))
	})
}

func TestKilledStreamsAreClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewServer()
		p, q := s.Process(t, nil), s.Process(t, nil)
		l := lock(t, q.Manager, "x")
		begin(t, p.Manager, "x")
		require.Equal(t, 1, p.client.Taps())
		p.Cut()
		synctest.Wait()
		require.Zero(t, p.client.Taps())
		p.Heal()
		time.Sleep(time.Minute)
		require.Equal(t, 1, p.client.Taps())
		p.Kill()
		require.Zero(t, p.client.Taps())
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// recorder is a test that takes down what it is told.
type recorder struct {
	testing.TB
	errors   int
	last     string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors++
	r.last = fmt.Sprintf(format, args...)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.last = fmt.Sprintf(format, args...)
	panic(r)
}

func (r *recorder) end() {
	for _, f := range r.cleanups {
		f()
	}
}

func TestMisuseIsTold(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, "fairlocktest: tb is nil: pass the test", func() { New(nil, nil) })
	require.PanicsWithValue(t, "fairlocktest: tb is nil: pass the test", func() { NewServer().Manager(nil, nil) })
	require.PanicsWithValue(t, "fairlocktest: tb is nil: pass the test", func() { NewServer().Process(nil, nil) })

	r := &recorder{}
	require.PanicsWithValue(t, r, func() { New(r, &fairlock.Config{TTL: time.Millisecond}) })
	require.Equal(t, "fairlocktest: fairlock: invalid option: Config.TTL is 1ms: must be from 1s to 1h", r.last)
	require.Empty(t, r.cleanups)

	p := NewServer().Process(r, nil)
	for _, c := range []struct {
		misuse func()
		told   string
	}{
		{func() { p.Suspend(0) }, "fairlocktest: Suspend: d is 0s: must be positive"},
		{func() { p.Fail(nil) }, "fairlocktest: Fail: err must not be nil; Heal ends it"},
	} {
		c.misuse()
		require.Equal(t, c.told, r.last)
	}
	p.Kill()
	p.Kill()
	for what, f := range map[string]func(){
		"Pause": p.Pause, "Resume": p.Resume, "Suspend": func() { p.Suspend(time.Second) },
		"Fail": func() { p.Fail(ErrCut) }, "Heal": p.Heal,
	} {
		f()
		require.Equal(t, "fairlocktest: "+what+" of a process that was killed", r.last)
	}
	require.Equal(t, 7, r.errors)
	r.end()
	require.Equal(t, 7, r.errors, "a killed process ends without complaint")
}

// TestProcessEndsWithItsTest, whatever was done to it.
func TestProcessEndsWithItsTest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewServer()
		r := &recorder{}
		paused, cut, closed := s.Process(r, nil), s.Process(r, nil), s.Process(r, nil)
		lock(t, paused.Manager, "x")
		lock(t, cut.Manager, "y")
		lock(t, closed.Manager, "z")
		paused.Pause()
		cut.Cut()
		require.NoError(t, closed.Close(t.Context()))
		r.end()
		require.Zero(t, r.errors)
		require.Empty(t, s.unrest())
	})
}
