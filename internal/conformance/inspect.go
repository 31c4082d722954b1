package conformance

import (
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

var inspectCases = []testCase{
	{"no such lock", noSuchLock},
	{"a queue", queueIsSeen},
	{"places without an owner", placesWithoutOwner},
	{"a list", listIsSeen},
	{"looking begins no session", lookingIsFree},
}

func noSuchLock(b *bed) {
	p := b.process()
	info, err := p.Inspect(b.ctx, "x")
	require.ErrorIs(b.t, err, fairlock.ErrNotFound)
	require.ErrorContains(b.t, err, `"x"`)
	require.Nil(b.t, info)
	all, err := p.List(b.ctx)
	require.NoError(b.t, err)
	require.NotNil(b.t, all)
	require.Empty(b.t, all)
}

func queueIsSeen(b *bed) {
	p, q := b.process(seenSoon), b.process(seenSoon)
	held := b.lock(p, "x")
	one, two := b.wait(q, "x"), b.wait(p, "x")
	b.until("all owners", func() bool {
		info, err := q.Inspect(b.ctx, "x")
		require.NoError(b.t, err)
		require.Equal(b.t, "x", info.Name)
		require.Equal(b.t, "mutex", info.Kind)
		require.EqualValues(b.t, 1, info.Permits)
		require.Nil(b.t, info.IdleSince)
		require.Equal(b.t, held.Token()+2, info.LastToken)
		require.Len(b.t, info.Holders, 1)
		require.Len(b.t, info.Waiters, 2)
		require.Equal(b.t, held.Token(), info.Holders[0].Token)
		require.Zero(b.t, info.Holders[0].Position)
		for i, w := range info.Waiters {
			require.Equal(b.t, held.Token()+1+int64(i), w.Token)
			require.Equal(b.t, i+1, w.Position)
		}
		h, w, v := info.Holders[0].Owner, info.Waiters[0].Owner, info.Waiters[1].Owner
		if h == nil || w == nil || v == nil {
			return false
		}
		require.Equal(b.t, []string{p.Session(), q.Session(), p.Session()}, []string{h.Session, w.Session, v.Session})
		return true
	})
	b.unlock(held)
	b.unlock(one.granted())
	b.unlock(two.granted())
	info, err := q.Inspect(b.ctx, "x")
	require.NoError(b.t, err)
	require.Empty(b.t, info.Holders)
	require.Empty(b.t, info.Waiters)
	require.NotNil(b.t, info.IdleSince)
}

func placesWithoutOwner(b *bed) {
	p := b.process() // its tickets come after a second
	held := b.lock(p, "x")
	info, err := p.Inspect(b.ctx, "x")
	require.NoError(b.t, err)
	require.Len(b.t, info.Holders, 1)
	require.Equal(b.t, held.Token(), info.Holders[0].Token)
	b.unlock(held)
}

func listIsSeen(b *bed) {
	p, q := b.process(), b.process()
	sem := b.semaphore(p, 3)
	held := b.acquire(sem, 2)
	waiting := b.waitFor(q, b.semaphore(q, 3), 3)
	mutex := b.lock(q, "m")
	b.unlock(b.lock(q, "idle"))
	all, err := p.List(b.ctx)
	require.NoError(b.t, err)
	require.Len(b.t, all, 3)
	idle, m, s := all[0], all[1], all[2]
	require.Equal(b.t, []string{"idle", "m", "s"}, []string{idle.Name, m.Name, s.Name})
	require.NotNil(b.t, idle.IdleSince)
	require.Zero(b.t, idle.Held+idle.Waiting)
	require.Equal(b.t, fairlock.LockSummary{Name: "m", Kind: "mutex", Permits: 1, Held: 1, LastToken: mutex.Token()}, m)
	// One of the three that are waited for is admitted, and counts as held.
	require.Equal(b.t, fairlock.LockSummary{
		Name: "s", Kind: "semaphore", Permits: 3, Held: 3, Waiting: 2, LastToken: held.Token() + 4,
	}, s)
	b.unlock(held)
	b.unlock(waiting.granted())
	b.unlock(mutex)
}

func lookingIsFree(b *bed) {
	p := b.process()
	_, err := p.Inspect(b.ctx, "x")
	require.ErrorIs(b.t, err, fairlock.ErrNotFound)
	_, err = b.election(p).Leader(b.ctx)
	require.ErrorIs(b.t, err, fairlock.ErrNoLeader)
	require.Equal(b.t, fairlock.Stats{}, p.Stats())
	b.untouched(p)
}
