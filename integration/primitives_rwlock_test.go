package integration

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/queue"
)

// access is a read or a write that was made.
type access struct {
	*taken
	token int64
}

// TestReadersDoNotStarveAWriter: readers of several managers keep a lock read nearly all the time, and a writer of another comes again and
// again. What it waits for are those who came before it: no reader with a later number enters before it has left, although such readers
// wait, and those before it still read.
func TestReadersDoNotStarveAWriter(t *testing.T) {
	t.Parallel()
	const managers, readers, writes = 3, 6, 25
	b := newBed(t)
	ctx := withLimit(t)
	procs, rec := b.recordedManagers(managers + 1)
	one := func(p *recorded, l *fairlock.RWLock, write bool, hold time.Duration) (access, error) {
		units, take := int64(1), l.RLock
		if write {
			units, take = queue.Readers, l.Lock
		}
		k, got, err := p.takeOne(units, queue.Readers, "book", func() (*fairlock.Lock, error) { return take(ctx) })
		if err != nil {
			return access{}, err
		}
		time.Sleep(hold) // what it is held for
		return access{k, got.Token()}, k.leave(ctx)
	}

	var mu sync.Mutex // guards reads
	var reads []access
	enough := make(chan struct{})
	var all sync.WaitGroup
	for i, p := range procs[:managers] {
		l, err := p.RWLock("book")
		require.NoError(t, err)
		for c := range readers {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(c)))
			all.Go(func() {
				for {
					select {
					case <-enough:
						return
					default:
					}
					a, err := one(p, l, false, time.Duration(rng.Int64N(int64(10*time.Millisecond))))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					reads = append(reads, a)
					mu.Unlock()
				}
			})
		}
	}
	l, err := procs[managers].RWLock("book")
	require.NoError(t, err)
	var written []access
	for range writes {
		a, err := one(procs[managers], l, true, time.Millisecond)
		require.NoError(t, err)
		written = append(written, a)
		time.Sleep(10 * time.Millisecond) // readers come back
	}
	close(enough)
	all.Wait()

	later, beside, before := 0, 0, 0
	for _, w := range written {
		for _, r := range reads {
			switch {
			case r.token > w.token:
				require.GreaterOrEqual(t, r.granted, w.leaving, "a reader that came after a writer, %d after %d, entered before it", r.token, w.token)
				if r.called < w.granted {
					later++
				}
			case r.granted >= w.called && r.granted < w.granted:
				before++
			}
		}
	}
	for _, a := range reads {
		for _, r := range reads {
			if a != r && a.granted <= r.granted && r.granted < a.leaving {
				beside++
				break
			}
		}
	}
	t.Logf("%d reads, %d beside another; %d writes, in whose waits %d readers entered who came before and %d came who did not", len(reads), beside, writes, before, later)
	require.Greater(t, beside, len(reads)/2, "a reader-heavy load")
	require.Greater(t, later, writes, "readers came after the writer while it waited")
	require.Equal(t, len(reads)+writes, requireSound(t, rec))
}
