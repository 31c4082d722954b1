package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/replset"
	"github.com/fairlock/fairlock/queue"
)

// Tests named TestScenario… are what docs/track-record.md has of other people's reports.

// TestScenarioServerRestarts: fifty callers in five processes wait when the only server is killed, and stays away for a while.
// No call fails, and when it is back all are served, in the order and with the numbers that they had.
func TestScenarioServerRestarts(t *testing.T) {
	t.Parallel()
	ctx := withLimit(t)
	set := replset.ForTest(t, replset.Options{Members: 1})
	b := newBedAt(t, set.URI())
	holder := b.manager(fairlock.Config{})
	held, err := holder.Lock(ctx, "x")
	require.NoError(t, err)
	ms := b.managers(5, fairlock.Config{})
	const n = 50
	q := queue.Open(b.db, "fairlock.", true)
	var waits []<-chan *fairlock.Lock
	for i := range n {
		waits = append(waits, waitBehind(t, ctx, ms[i%5], "x"))
		b.awaitIssued("x", held.Token()+int64(i)+1)
	}
	for _, m := range ms {
		eventually(t, "stream open", func() bool { return m.Stats().Streaming })
	}
	server := set.Members()[0]
	require.NoError(t, server.Kill())
	for _, m := range ms {
		eventually(t, "stream broken", func() bool { return m.Stats().StreamsFailed > 0 })
	}
	require.NoError(t, server.Restart(ctx))
	_, err = set.WaitPrimary(ctx)
	require.NoError(t, err)
	require.NoError(t, held.Err())
	require.NoError(t, held.Unlock(ctx))
	for i, w := range waits {
		l := <-w
		require.NotNil(t, l)
		require.Equal(t, held.Token()+int64(i)+1, l.Token())
		require.NoError(t, l.Unlock(ctx))
	}
	for _, m := range ms {
		require.Zero(t, m.Stats().Requeued+m.Stats().Lost)
	}
	v, _, err := q.View(ctx, "x")
	require.NoError(t, err)
	require.Equal(t, held.Token()+n, v.Issued)
	closeAll(t, append(ms, holder))
	b.requireQuiet()
}

// TestScenarioNoMajority: the primary stays and no majority follows it, as when the only other member with data of a set with an
// arbiter is down. Streams are mute and majority reads are of the past, without an error. Nothing is granted or counted as renewed,
// holders are told within their lease, callers whose time runs out are told why, and all goes on when the majority is back.
func TestScenarioNoMajority(t *testing.T) {
	t.Parallel()
	ctx := withLimit(t)
	set := replset.ForTest(t, replset.Options{})
	b := newBedAt(t, set.URI())
	cfg := fairlock.Config{TTL: shortTTL, OpTimeout: 2500 * time.Millisecond}
	m1, m2 := b.manager(cfg), b.manager(cfg)
	held, err := m1.Lock(ctx, "x")
	require.NoError(t, err)
	next := waitBehind(t, ctx, m2, "x")
	b.awaitWaiters(m1, "x", 1)
	primary, err := set.Primary(ctx)
	require.NoError(t, err)
	for _, m := range set.Members() {
		if m != primary {
			require.NoError(t, m.Pause())
		}
	}
	cut := time.Now()
	<-held.Context().Done()
	require.ErrorIs(t, held.Err(), fairlock.ErrLost)
	require.Less(t, time.Since(cut), shortTTL, "told within the lease")
	short, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, err = m1.Lock(short, "y")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "last failure", "and why")
	require.Empty(t, next, "nothing is granted")
	for _, m := range set.Members() {
		if m != primary {
			require.NoError(t, m.Resume())
		}
	}
	l := <-next
	require.Greater(t, l.Token(), held.Token())
	require.ErrorIs(t, held.Unlock(ctx), fairlock.ErrLost)
	if err := l.Unlock(ctx); err != nil {
		require.ErrorIs(t, err, fairlock.ErrLost) // the first writes after it can take longer than so short a lease
	}
	require.NoError(t, m1.Do(ctx, "y", func(context.Context) error { return nil }))
	closeAll(t, []*fairlock.Manager{m1, m2})
}

// TestScenarioDropDatabase: the whole database is dropped under a holder and waiters. The holder is told, the waiters are served, and tokens
// go on.
func TestScenarioDropDatabase(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m1, m2 := b.manager(fairlock.Config{TTL: shortTTL}), b.manager(fairlock.Config{TTL: shortTTL})
	held, err := m1.Lock(ctx, "x")
	require.NoError(t, err)
	var waits []<-chan *fairlock.Lock
	for i := range 3 {
		waits = append(waits, waitBehind(t, ctx, m2, "x"))
		b.awaitWaiters(m1, "x", i+1)
	}
	require.NoError(t, b.db.Drop(ctx))
	<-held.Context().Done()
	require.ErrorIs(t, held.Err(), fairlock.ErrLost)
	for range waits {
		var l *fairlock.Lock // they queue again, and may have been granted before they learn that their session was dropped too
		select {
		case l = <-waits[0]:
		case l = <-waits[1]:
		case l = <-waits[2]:
		}
		require.Greater(t, l.Token(), held.Token()+3)
		if err := l.Unlock(ctx); err != nil {
			require.ErrorIs(t, err, fairlock.ErrLost)
		}
	}
	require.ErrorIs(t, held.Unlock(ctx), fairlock.ErrLost)
}

// TestScenarioFirstArrivalsRace: many processes use names for the first time at the same moment, while the collection is not there yet. Nobody
// sees a duplicate key, and each name has one document.
func TestScenarioFirstArrivalsRace(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	ms := b.managers(8, fairlock.Config{})
	const names = 25
	start, done := make(chan struct{}), make(chan error, len(ms)*names)
	for _, m := range ms {
		for i := range names {
			go func() {
				<-start
				done <- m.Do(ctx, fmt.Sprint("first ", i), func(context.Context) error { return nil })
			}()
		}
	}
	close(start)
	for range len(ms) * names {
		require.NoError(t, <-done)
	}
	n, err := b.coll("locks").CountDocuments(ctx, bson.D{})
	require.NoError(t, err)
	require.EqualValues(t, names, n)
}

// TestScenarioCursorsDoNotPileUp: managers are closed while their streams wait for events, and calls end while theirs are being opened. The
// server keeps no cursor of them.
func TestScenarioCursorsDoNotPileUp(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	holder := b.manager(fairlock.Config{})
	held, err := holder.Lock(ctx, "x")
	require.NoError(t, err)
	cursors := func() int {
		return b.operations(ctx, bson.E{Key: "cursor", Value: bson.D{{Key: "$exists", Value: true}}})
	}
	for i := range 12 {
		m := b.manager(fairlock.Config{})
		wait, cancel := context.WithCancel(ctx)
		gone := make(chan struct{})
		go func() { defer close(gone); _, _ = m.Lock(wait, "x") }()
		if i%3 == 0 {
			b.awaitIssued("x", held.Token()+int64(i)+1) // the stream is being opened
		} else {
			eventually(t, "stream open", func() bool { return m.Stats().Streaming })
			eventually(t, "a cursor", func() bool { return cursors() > 0 })
		}
		if i%2 == 0 {
			cancel()
		}
		require.NoError(t, m.Close(ctx))
		cancel()
		<-gone
	}
	// One whose getMore was under way when it was killed goes when that notices.
	eventually(t, "no cursor", func() bool { return cursors() == 0 })
	require.NoError(t, held.Unlock(ctx))
}

// TestScenarioTTLIndexesOnlyCollect: what the server deletes by itself is what nobody has needed for a day.
func TestScenarioTTLIndexesOnlyCollect(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	m := b.manager(fairlock.Config{TTL: shortTTL, TicketDelay: time.Millisecond})
	require.NoError(t, m.Setup(ctx))
	of := map[string]string{}
	for _, coll := range []string{"locks", "tickets", "sessions"} {
		specs, err := b.coll(coll).Indexes().ListSpecifications(ctx)
		require.NoError(t, err)
		for _, s := range specs {
			if s.ExpireAfterSeconds != nil {
				require.EqualValues(t, 24*60*60, *s.ExpireAfterSeconds)
				var keys bson.D
				require.NoError(t, bson.Unmarshal(s.KeysDocument, &keys))
				require.Len(t, keys, 1)
				of[coll] = keys[0].Key
			}
		}
	}
	require.Equal(t, map[string]string{"locks": "idleSince", "sessions": "endedAt"}, of)
	l, err := m.Lock(ctx, "x")
	require.NoError(t, err)
	b.awaitWaiters(m, "x", 0)
	for coll, field := range of {
		n, err := b.coll(coll).CountDocuments(ctx, bson.D{{Key: field, Value: bson.D{{Key: "$exists", Value: true}}}})
		require.NoError(t, err)
		require.Zero(t, n, "%s: what is in use has no such time", coll)
	}
	require.NoError(t, l.Unlock(ctx))
}

// TestScenarioTicketAttemptsTogether: the attempts to write one ticket meet at the server, as when the first was given up and takes effect
// all the same. An upsert that finds nothing and then meets the other's insert is no tombstone (fairlock's own fault, e22dd11).
func TestScenarioTicketAttemptsTogether(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	q := queue.Open(b.db, "fairlock.", true)
	const tickets, attempts = 40, 8
	var ids []queue.TicketID
	for i := range int64(tickets) {
		k := queue.Ticket{ID: queue.TicketID{Lock: "x", Lo: i + 1}, Hi: i + 1, Session: "s", Weight: 1}
		ids = append(ids, k.ID)
		start, done := make(chan struct{}), make(chan error, attempts)
		for range attempts {
			go func() {
				<-start
				done <- q.PutTicket(ctx, k, 0)
			}()
		}
		close(start)
		for range attempts {
			require.NoError(t, <-done)
		}
	}
	require.NoError(t, q.DropTickets(ctx, ids))
}
