package conformance

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

var sharedCases = []testCase{
	{"a semaphore lets several hold", semaphoreLetsSeveral},
	{"a big request is not passed", bigRequestIsNotPassed},
	{"permits are given back in parts", releasedInParts},
	{"Release of what cannot be released", releaseRefused},
	{"permits of a killed process", permitsOfKilled},
	{"reentry of a semaphore is its caller's business", semaphoreReentry},
	{"readers read together", readersTogether},
	{"a writer waits and is not passed", writerIsNotPassed},
	{"tokens of readers and writers", tokensOfReaders},
	{"an upgrade is refused", upgradeRefused},
}

func (b *bed) semaphore(p *Process, permits int64) *fairlock.Semaphore {
	b.t.Helper()
	s, err := p.Semaphore("s", permits)
	require.NoError(b.t, err)
	require.Equal(b.t, "s", s.Name())
	return s
}

func (b *bed) acquire(s *fairlock.Semaphore, n int64) *fairlock.Lock {
	b.t.Helper()
	l, err := s.Acquire(b.ctx, n)
	require.NoError(b.t, err)
	require.Equal(b.t, n, l.Units())
	return l
}

func (b *bed) waitFor(p *Process, s *fairlock.Semaphore, n int64) *call {
	b.t.Helper()
	return b.begin(p, "s", func(ctx context.Context) (*fairlock.Lock, error) { return s.Acquire(ctx, n) })
}

func semaphoreLetsSeveral(b *bed) {
	p, q := b.process(), b.process()
	sp, sq := b.semaphore(p, 3), b.semaphore(q, 3)
	one, two := b.acquire(sp, 1), b.acquire(sq, 1)
	three, err := sq.TryAcquire(b.ctx, 1)
	require.NoError(b.t, err)
	_, err = sp.TryAcquire(b.ctx, 1)
	require.ErrorIs(b.t, err, fairlock.ErrBusy)
	next := b.waitFor(p, sp, 1)
	next.waits()
	b.unlock(two)
	four := next.granted()
	for _, l := range []*fairlock.Lock{one, three, four} {
		b.unlock(l)
	}
	all := b.acquire(sq, 3)
	require.Greater(b.t, all.Token(), four.Token())
	b.unlock(all)
}

func bigRequestIsNotPassed(b *bed) {
	p, q, r := b.process(), b.process(), b.process()
	sp, sq, sr := b.semaphore(p, 4), b.semaphore(q, 4), b.semaphore(r, 4)
	held := b.acquire(sp, 3)
	big := b.waitFor(q, sq, 4)
	small := b.waitFor(r, sr, 1) // one is free
	_, err := sr.TryAcquire(b.ctx, 1)
	require.ErrorIs(b.t, err, fairlock.ErrBusy)
	small.waits()
	b.unlock(held)
	got := big.granted()
	small.waits()
	b.unlock(got)
	b.unlock(small.granted())
}

func releasedInParts(b *bed) {
	p, q := b.process(), b.process()
	sp, sq := b.semaphore(p, 4), b.semaphore(q, 4)
	l := b.acquire(sp, 4)
	token := l.Token()
	one := b.waitFor(q, sq, 1)
	two := b.waitFor(q, sq, 2)
	require.NoError(b.t, l.Release(b.ctx, 1))
	require.EqualValues(b.t, 3, l.Units())
	first := one.granted()
	two.waits()
	require.NoError(b.t, l.Release(b.ctx, 2))
	second := two.granted()
	require.EqualValues(b.t, 1, l.Units())
	require.Equal(b.t, token, l.Token())
	require.NoError(b.t, l.Err())
	for _, l := range []*fairlock.Lock{l, first, second} {
		b.unlock(l)
	}
}

func releaseRefused(b *bed) {
	p := b.process()
	s := b.semaphore(p, 4)
	l := b.acquire(s, 3)
	for _, n := range []int64{0, -1, 3, 4} {
		require.ErrorIs(b.t, l.Release(b.ctx, n), fairlock.ErrInvalidOption)
	}
	require.EqualValues(b.t, 3, l.Units())
	b.unlock(l)
	require.ErrorIs(b.t, l.Release(b.ctx, 1), fairlock.ErrUnlocked)
	mutex := b.lock(p, "x")
	err := mutex.Release(b.ctx, 1)
	require.ErrorIs(b.t, err, fairlock.ErrInvalidOption)
	require.ErrorContains(b.t, err, "semaphore")
	b.unlock(mutex)
}

func permitsOfKilled(b *bed) {
	p, q := b.process(short), b.process(short)
	sp, sq := b.semaphore(p, 2), b.semaphore(q, 2)
	dead := b.acquire(sp, 2)
	next := b.waitFor(q, sq, 2)
	b.seen(q, "s", dead.Token())
	p.Kill()
	got := next.granted()
	require.Greater(b.t, got.Token(), dead.Token())
	b.unlock(got)
}

func semaphoreReentry(b *bed) {
	p := b.process()
	s := b.semaphore(p, 2)
	l := b.acquire(s, 1)
	inner, err := s.Acquire(l.Context(), 1)
	require.NoError(b.t, err)
	b.unlock(inner)
	b.unlock(l)
}

func (b *bed) rw(p *Process) *fairlock.RWLock {
	b.t.Helper()
	l, err := p.RWLock("rw")
	require.NoError(b.t, err)
	require.Equal(b.t, "rw", l.Name())
	return l
}

func (b *bed) read(l *fairlock.RWLock) *fairlock.Lock {
	b.t.Helper()
	got, err := l.RLock(b.ctx)
	require.NoError(b.t, err)
	require.EqualValues(b.t, 1, got.Units())
	return got
}

func readersTogether(b *bed) {
	p, q := b.process(), b.process()
	lp, lq := b.rw(p), b.rw(q)
	one, two, three := b.read(lp), b.read(lq), b.read(lp)
	four, err := lq.TryRLock(b.ctx)
	require.NoError(b.t, err)
	_, err = lq.TryLock(b.ctx)
	require.ErrorIs(b.t, err, fairlock.ErrBusy)
	for _, l := range []*fairlock.Lock{one, two, three, four} {
		b.unlock(l)
	}
	w, err := lq.TryLock(b.ctx)
	require.NoError(b.t, err)
	_, err = lp.TryRLock(b.ctx)
	require.ErrorIs(b.t, err, fairlock.ErrBusy)
	b.unlock(w)
}

func writerIsNotPassed(b *bed) {
	p, q, r := b.process(), b.process(), b.process()
	lp, lq, lr := b.rw(p), b.rw(q), b.rw(r)
	first := b.read(lp)
	writer := b.begin(q, "rw", func(ctx context.Context) (*fairlock.Lock, error) { return lq.Lock(ctx) })
	later := b.begin(r, "rw", func(ctx context.Context) (*fairlock.Lock, error) { return lr.RLock(ctx) })
	too := b.begin(p, "rw", func(ctx context.Context) (*fairlock.Lock, error) { return lp.RLock(ctx) })
	_, err := lr.TryRLock(b.ctx)
	require.ErrorIs(b.t, err, fairlock.ErrBusy)
	writer.waits()
	b.unlock(first)
	w := writer.granted()
	later.waits()
	too.waits()
	b.unlock(w)
	// Both hold now: neither was given back when the other got it.
	one, two := later.granted(), too.granted()
	b.unlock(one)
	b.unlock(two)
}

func tokensOfReaders(b *bed) {
	p, q := b.process(), b.process()
	lp, lq := b.rw(p), b.rw(q)
	before, err := lp.Lock(b.ctx)
	require.NoError(b.t, err)
	b.unlock(before)
	one, two := b.read(lp), b.read(lq)
	require.NotEqual(b.t, one.Token(), two.Token())
	b.unlock(one)
	b.unlock(two)
	after, err := lq.Lock(b.ctx)
	require.NoError(b.t, err)
	for _, l := range []*fairlock.Lock{one, two} {
		require.Greater(b.t, l.Token(), before.Token())
		require.Less(b.t, l.Token(), after.Token())
	}
	b.unlock(after)
}

func upgradeRefused(b *bed) {
	p := b.process()
	l := b.rw(p)
	reading := b.read(l)
	issued := b.issued(p, "rw")
	_, err := l.Lock(reading.Context())
	require.ErrorIs(b.t, err, fairlock.ErrUpgrade)
	_, err = l.RLock(reading.Context())
	require.ErrorIs(b.t, err, fairlock.ErrReentrant)
	require.Equal(b.t, issued, b.issued(p, "rw"))
	b.unlock(reading)
	writing, err := l.Lock(b.ctx)
	require.NoError(b.t, err)
	_, err = l.Lock(writing.Context())
	require.ErrorIs(b.t, err, fairlock.ErrReentrant)
	_, err = l.RLock(writing.Context())
	require.ErrorIs(b.t, err, fairlock.ErrReentrant)
	b.unlock(writing)
}
