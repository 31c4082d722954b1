package contend

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// fake is a lock in this process. It counts like a client that can.
type fake struct {
	mu   *sync.Mutex
	refs chan struct{} // one element when the lock is free

	count   Totals
	asked   chan struct{} // an element when somebody has begun to wait
	granted chan struct{} // the test receives from it, and lets one grant happen
}

func newFake() *fake {
	f := &fake{mu: &sync.Mutex{}, refs: make(chan struct{}, 1), asked: make(chan struct{}, 1), granted: make(chan struct{})}
	f.refs <- struct{}{}
	return f
}

func (f *fake) Lock(ctx context.Context) (Grant, error) {
	select {
	case f.asked <- struct{}{}:
	default:
	}
	select {
	case <-f.refs:
	case <-ctx.Done():
		return Grant{Queued: 7}, ctx.Err()
	}
	select {
	case f.granted <- struct{}{}:
	case <-ctx.Done():
		f.refs <- struct{}{}
		return Grant{Queued: 7}, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count.Commands++
	return Grant{Queued: 5, Token: f.count.Commands}, nil
}

func (f *fake) Unlock(context.Context) error {
	f.refs <- struct{}{}
	return nil
}

func (f *fake) Count() Totals {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Totals{Commands: f.count.Commands, Other: map[string]int64{"grants": f.count.Commands}}
}

func (f *fake) Close(context.Context) (Totals, error) { return f.Count(), nil }

// silent is a Locker that is no Counter.
type silent struct{ Locker }

func kindOf(l Locker) []Kind {
	return []Kind{{Name: "fake", Server: "none", Open: func(context.Context, string, string) (Locker, error) { return l, nil }}}
}

// peer is the harness's side of a contender under test.
type peer struct {
	t       *testing.T
	in      *io.PipeWriter
	out     *bufio.Scanner
	result  chan error
	records string
	orphans chan struct{} // an element when the input ended without a stop
}

func start(t *testing.T, l Locker, more ...string) *peer {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &peer{t: t, in: inW, out: bufio.NewScanner(outR), result: make(chan error, 1), records: filepath.Join(t.TempDir(), "records"),
		orphans: make(chan struct{}, 1)}
	args := append([]string{"-kind", "fake", "-target", "x", "-lock", "l", "-records", p.records}, more...)
	go func() {
		err := serve(kindOf(l), args, inR, outW, func() { p.orphans <- struct{}{} })
		_ = outW.Close()
		p.result <- err
	}()
	t.Cleanup(func() { _ = inW.Close() })
	return p
}

func (p *peer) say(line string) {
	_, err := io.WriteString(p.in, line+"\n")
	require.NoError(p.t, err)
}

func (p *peer) line() string {
	require.True(p.t, p.out.Scan(), "the contender has said nothing more")
	return p.out.Text()
}

// totals awaits the end.
func (p *peer) totals() (t Totals) {
	text, ok := strings.CutPrefix(p.line(), "done ")
	require.True(p.t, ok)
	require.NoError(p.t, json.Unmarshal([]byte(text), &t))
	require.NoError(p.t, <-p.result)
	return t
}

func TestRun(t *testing.T) {
	t.Parallel()
	f := newFake()
	p := start(t, f)
	require.Equal(t, "ready", p.line())
	require.Empty(t, f.asked, "it asks only after go")
	p.say("go")
	<-f.granted
	p.say("mark")
	p.say("unknown") // is read only when the mark was taken
	for range 10 {
		<-f.granted
	}
	p.say("mark")
	p.say("stop")
	totals := p.totals()
	require.True(t, totals.Marked)
	require.InDelta(t, 10, totals.Commands, 1, "a grant may be on its way at each mark")
	require.Equal(t, totals.Commands, totals.Other["grants"])

	records, err := ReadRecords(p.records)
	require.NoError(t, err)
	// One more without a grant if it had begun to wait when it was stopped.
	granted := slices.DeleteFunc(records, func(r Record) bool { return r.Granted == 0 })
	require.Len(t, granted, 11)
	for i, r := range granted {
		require.LessOrEqual(t, r.Asked, r.Granted)
		require.LessOrEqual(t, r.Granted, r.Unlocking)
		require.LessOrEqual(t, r.Unlocking, r.Unlocked)
		require.EqualValues(t, 5, r.Queued)
		require.EqualValues(t, i+1, r.Token)
	}
	require.Len(t, f.refs, 1, "the lock was given back")
}

// A wait that the stop cuts short leaves a record without a grant, with what is known of its place.
func TestStopWhileWaiting(t *testing.T) {
	t.Parallel()
	f := newFake()
	<-f.refs // held by somebody else
	p := start(t, silent{f})
	p.line()
	p.say("go")
	p.say("mark")
	<-f.asked
	require.NoError(t, p.in.Close(), "the end of the input is a stop")
	totals := p.totals()
	require.Len(t, p.orphans, 1)
	require.False(t, totals.Marked)
	records, err := ReadRecords(p.records)
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Zero(t, records[0].Granted)
	require.Positive(t, records[0].Asked)
	require.EqualValues(t, 7, records[0].Queued)
}

// A hold is cut short by a stop, and the lock given back.
func TestStopWhileHolding(t *testing.T) {
	t.Parallel()
	f := newFake()
	p := start(t, f, "-hold", "1h")
	p.line()
	p.say("go")
	<-f.granted
	p.say("stop")
	p.totals()
	require.Empty(t, p.orphans)
	require.Len(t, f.refs, 1)
}

func TestNeverBegun(t *testing.T) {
	t.Parallel()
	f := newFake()
	p := start(t, f)
	p.line()
	p.say("stop")
	p.totals()
	records, err := ReadRecords(p.records)
	require.NoError(t, err)
	require.Empty(t, records)
}

type failing struct{ *fake }

func (failing) Lock(context.Context) (Grant, error) { return Grant{}, errors.New("no such luck") }

func TestFailure(t *testing.T) {
	t.Parallel()
	p := start(t, failing{newFake()})
	p.line()
	p.say("go")
	require.ErrorContains(t, <-p.result, "no such luck")
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"-kind nobody -target x -lock l -records r", `-kind "nobody" is none of this binary's`},
		{"-kind fake -target x -lock l", "-target, -lock and -records must be set"},
		{"-kind fake -target x -lock l -records r -hold -1s", "-hold -1s must not be negative"},
		{"-size 1", "-size"},
	} {
		err := serve(kindOf(newFake()), strings.Fields(c.args), strings.NewReader(""), io.Discard, func() {})
		require.ErrorContains(t, err, c.want)
	}
}
