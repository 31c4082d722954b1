package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

var inputCases = []testCase{
	{"names", badNames},
	{"options", badOptions},
	{"permits and units", badPermits},
	{"names of a set", badSets},
	{"good names", goodNames},
}

var errRan = errors.New("fn ran")

// named is every call that takes a name.
func named(b *bed, p *Process, name string, opts ...fairlock.Option) map[string]func() error {
	return map[string]func() error{
		"Lock":    func() error { _, err := p.Lock(b.ctx, name, opts...); return err },
		"TryLock": func() error { _, err := p.TryLock(b.ctx, name, opts...); return err },
		"Do": func() error {
			return p.Do(b.ctx, name, func(context.Context) error { return errRan }, opts...)
		},
		"LockAll": func() error { _, err := p.LockAll(b.ctx, []string{"a", name}, opts...); return err },
		"Semaphore": func() error {
			s, err := p.Semaphore(name, 2)
			if err == nil {
				_, err = s.Acquire(b.ctx, 1, opts...)
			}
			return err
		},
		"TryAcquire": func() error {
			s, err := p.Semaphore(name, 2)
			if err == nil {
				_, err = s.TryAcquire(b.ctx, 1, opts...)
			}
			return err
		},
		"RWLock": func() error {
			l, err := p.RWLock(name)
			if err == nil {
				_, err = l.Lock(b.ctx, opts...)
			}
			return err
		},
		"RLock": func() error {
			l, err := p.RWLock(name)
			if err == nil {
				_, err = l.RLock(b.ctx, opts...)
			}
			return err
		},
		"Election": func() error {
			e, err := p.Election(name)
			if err == nil {
				_, err = e.Campaign(b.ctx, "v", opts...)
			}
			return err
		},
	}
}

func badNames(b *bed) {
	p := b.process()
	for _, bad := range []struct{ name, rule string }{
		{"", "empty"},
		{strings.Repeat("x", 256), "255 bytes"},
		{"a\nb", "control character"},
		{"a\x00", "control character"},
		{"\u0085", "control character"},
		{"\tsweep", "control character"},
		{"a\xff", "UTF-8"},
	} {
		calls := named(b, p, bad.name)
		calls["Inspect"] = func() error { _, err := p.Inspect(b.ctx, bad.name); return err }
		calls["ValidateName"] = func() error { return fairlock.ValidateName(bad.name) }
		for what, f := range calls {
			err := f()
			require.ErrorIs(b.t, err, fairlock.ErrInvalidName, "%s of %q", what, bad.name)
			require.ErrorContains(b.t, err, bad.rule, "%s of %q", what, bad.name)
			require.Less(b.t, len(err.Error()), 300, "bad input must not fill a log")
		}
	}
	b.untouched(p)
}

func badOptions(b *bed) {
	p := b.process()
	for _, bad := range []struct {
		opt         fairlock.Option
		value, rule string
	}{
		{fairlock.MaxWait(0), "MaxWait is 0s", "must be positive"},
		{fairlock.MaxWait(-time.Second), "MaxWait is -1s", "must be positive"},
		{fairlock.MaxHold(0), "MaxHold is 0s", "must be positive"},
		{fairlock.MaxHold(-time.Hour), "MaxHold is -1h0m0s", "must be positive"},
		{fairlock.Label(strings.Repeat("x", 256)), `Label is "xxx`, "must be at most 255 bytes, has 256"},
		{fairlock.Label("a\xff"), `Label is "a\xff"`, "must be valid UTF-8"},
	} {
		for what, f := range named(b, p, "x", bad.opt) {
			err := f()
			require.ErrorIs(b.t, err, fairlock.ErrInvalidOption, what)
			require.ErrorContains(b.t, err, bad.value, what)
			require.ErrorContains(b.t, err, bad.rule, what)
			require.Less(b.t, len(err.Error()), 300, "bad input must not fill a log")
		}
	}
	e := b.election(p)
	_, err := e.Campaign(b.ctx, "a\xff")
	require.ErrorIs(b.t, err, fairlock.ErrInvalidOption)
	require.ErrorContains(b.t, err, "must be valid UTF-8")
	b.untouched(p)
}

func badPermits(b *bed) {
	p := b.process()
	for _, permits := range []int64{0, -1, 10_001, 1 << 62} {
		_, err := p.Semaphore("x", permits)
		require.ErrorIs(b.t, err, fairlock.ErrInvalidOption)
		require.ErrorContains(b.t, err, fmt.Sprintf("permits is %d: must be from 1 to 10000", permits))
	}
	s := b.semaphore(p, 10_000)
	for _, units := range []int64{0, -1, 10_001, 1 << 62} {
		for _, f := range []func(context.Context, int64, ...fairlock.Option) (*fairlock.Lock, error){s.Acquire, s.TryAcquire} {
			_, err := f(b.ctx, units)
			require.ErrorIs(b.t, err, fairlock.ErrInvalidOption)
			require.ErrorContains(b.t, err, fmt.Sprintf("units is %d", units))
		}
	}
	b.untouched(p)
}

func badSets(b *bed) {
	p := b.process()
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for _, bad := range []struct {
		names []string
		rule  string
	}{
		{nil, "must be at least one"},
		{[]string{"a", "b", "a"}, `"a": must not be named twice`},
		{many, "names is 1001: must be at most 1000"},
	} {
		_, err := p.LockAll(b.ctx, bad.names)
		require.ErrorIs(b.t, err, fairlock.ErrInvalidOption)
		require.ErrorContains(b.t, err, bad.rule)
	}
	b.untouched(p)
}

func goodNames(b *bed) {
	p := b.process()
	for _, name := range []string{"x", " ", ".", "$", "$x", "a.b", strings.Repeat("x", 255), "\u200b", "日本", "\ufeff", "\U0001F512", "-"} {
		b.unlock(b.lock(p, name))
		info, err := p.Inspect(b.ctx, name)
		require.NoError(b.t, err)
		require.Equal(b.t, name, info.Name)
	}
}
