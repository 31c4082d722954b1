package integration

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/clock"
)

// crowd is what a worker is to do: rounds in which callers take and leave one lock. The callers of a round begin together, so
// that those who come while the first asks for a number share an arrival.
type crowd struct {
	Callers, Rounds int
	// Each caller takes the lock up to Takes times in a round.
	Takes int
	// Mixed adds a caller that goes on trying by TryLock, lets some of the others give up, and pauses between rounds.
	Mixed bool
	Seed  uint64
}

// call is one call of Lock or TryLock, by the clock that all processes of the machine share. Each stamp is on the side of its
// event that makes the proof weaker and never wrong.
type call struct {
	Process int
	Try     bool
	Asked   clock.Instant // before the call
	Entered clock.Instant // after the call stood in its process's queue
	Granted clock.Instant // after the call returned a lock; 0: it returned none
	Leaving clock.Instant // before Unlock
	Token   int64
	Err     string // other than a wait given up and a refused TryLock
}

// entered is a context that notes when a call first waits on it. Lock does so when it has put the call into its queue and not
// before, which nobody outside could see otherwise.
type entered struct {
	context.Context
	once sync.Once
	at   clock.Instant
}

func (e *entered) Done() <-chan struct{} {
	e.once.Do(func() { e.at = clock.System.Now() })
	return e.Context.Done()
}

// crowd runs in a worker.
func (w *workerSide) crowd(ctx context.Context, name string, c crowd) []call {
	var mu sync.Mutex // guards all
	var all []call
	take := func(ctx context.Context, try bool) {
		one := w.take(ctx, name, try)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, one)
	}
	trying, end := context.WithCancel(ctx)
	var triers sync.WaitGroup
	if c.Mixed {
		triers.Go(func() {
			for trying.Err() == nil {
				take(ctx, true)
				time.Sleep(rand.N(4 * time.Millisecond))
			}
		})
	}
	rnd := rand.New(rand.NewPCG(c.Seed, 1))
	for range c.Rounds {
		var callers sync.WaitGroup
		for range c.Callers {
			takes, patience := 1+rnd.IntN(c.Takes), limit
			if c.Mixed && rnd.IntN(4) == 0 {
				patience = time.Duration(rnd.IntN(30)) * time.Millisecond
			}
			callers.Go(func() {
				for range takes {
					wait, cancel := context.WithTimeout(ctx, patience)
					take(wait, false)
					cancel()
				}
			})
		}
		callers.Wait()
		if c.Mixed { // so that now and then nobody is there, and a TryLock gets the lock
			time.Sleep(time.Duration(rnd.IntN(200)) * time.Millisecond)
		}
	}
	end()
	triers.Wait()
	return all
}

// take takes and leaves the lock once.
func (w *workerSide) take(ctx context.Context, name string, try bool) call {
	take := w.m.Lock
	if try {
		take = w.m.TryLock
	}
	e := &entered{Context: ctx}
	c := call{Try: try, Asked: clock.System.Now()}
	l, err := take(e, name)
	switch {
	case err == nil:
		c.Granted, c.Entered, c.Token = clock.System.Now(), e.at, l.Token()
		c.Leaving = clock.System.Now()
		if err := l.Unlock(context.WithoutCancel(ctx)); err != nil {
			c.Err = err.Error()
		}
	case ctx.Err() == nil && !(try && errors.Is(err, fairlock.ErrBusy)):
		c.Err = err.Error()
	}
	return c
}

// committed is an arrival as the server's log has it.
type committed struct {
	lo, hi  int64
	slot    string
	learned clock.Instant // after the test knew of it
}

// arrivals follows the change stream of the locks collection, which is the server's log, from before the first change, and
// proves of each change of one lock that the server issues numbers in the order in which it commits: each arrival takes those after
// the last, no other change takes any, and exactly one slot's mark says whose they are.
type arrivals struct {
	t        *testing.T
	name     string
	issued   int64
	arrivals int64
	at       bson.Timestamp
}

type lockChange struct {
	Op  string         `bson:"operationType"`
	At  bson.Timestamp `bson:"clusterTime"`
	Key struct {
		ID string `bson:"_id"`
	} `bson:"documentKey"`
	Full   bson.M `bson:"fullDocument"`
	Update struct {
		Set bson.M `bson:"updatedFields"`
	} `bson:"updateDescription"`
}

// follow sends all arrivals until ctx ends.
func (b *bed) follow(ctx context.Context, t *testing.T, name string) <-chan committed {
	// Without a lookup: an update is told by what it changed, as the log has it.
	cs, err := b.coll("locks").Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetMaxAwaitTime(time.Second))
	require.NoError(t, err)
	out := make(chan committed, 100_000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(out)
		defer cs.Close(context.WithoutCancel(ctx))
		a := arrivals{t: t, name: name}
		for cs.Next(ctx) {
			learned := clock.System.Now()
			var c lockChange
			if err := cs.Decode(&c); err != nil {
				t.Error(err)
				return
			}
			if c.Key.ID != name {
				continue
			}
			if one, ok := a.change(&c); ok {
				one.learned = learned
				out <- one
			}
			if t.Failed() {
				return
			}
		}
		if ctx.Err() == nil {
			t.Errorf("change stream: %v", cs.Err())
		}
	}()
	t.Cleanup(func() { <-done })
	return out
}

// change takes in one change, and returns the arrival that it is, if it is one.
func (a *arrivals) change(c *lockChange) (committed, bool) {
	if c.At.Compare(a.at) <= 0 {
		a.t.Errorf("commit at %v after %v", c.At, a.at)
	}
	a.at = c.At
	var fields bson.M
	switch c.Op {
	case "update":
		fields = c.Update.Set
	case "insert", "replace": // the server logs a replacement where that is shorter than the difference
		fields = c.Full
	default:
		a.t.Errorf("change of kind %q", c.Op)
		return committed{}, false
	}
	if c.Op == "insert" {
		if a.issued != 0 {
			a.t.Errorf("the document was made twice")
		}
		a.issued = fields["settled"].(int64) // of a new document what its numbers begin after
	}
	newest := newestArrival(fields)
	issued, ok := fields["issued"].(int64)
	if !ok || issued == a.issued {
		if newest.arrival > a.arrivals {
			a.t.Errorf("arrival %d of slot %s takes no number", newest.arrival, newest.slot)
		}
		return committed{}, false
	}
	one := committed{lo: a.issued + 1, hi: issued, slot: newest.slot}
	if issued < a.issued {
		a.t.Errorf("issued goes back from %d to %d", a.issued, issued)
	}
	if newest.hi != issued || newest.arrival != a.arrivals+1 {
		a.t.Errorf("arrival %d takes (%d, %d], and slot %q says that it is %d and takes numbers up to %d",
			a.arrivals+1, a.issued, issued, newest.slot, newest.arrival, newest.hi)
	}
	a.issued = issued
	a.arrivals++
	return one, true
}

type slotMark struct {
	slot        string
	hi, arrival int64
}

// newestArrival is the newest of the arrivals that the fields of a change show.
func newestArrival(fields bson.M) (newest slotMark) {
	slots := map[string]*slotMark{}
	take := func(slot, field string, v any) {
		s := slots[slot]
		if s == nil {
			s = &slotMark{slot: slot}
			slots[slot] = s
		}
		n, _ := v.(int64)
		switch field {
		case "hi":
			s.hi = n
		case "arrival":
			s.arrival = n
		}
	}
	each := func(v any, do func(key string, v any)) {
		d, _ := v.(bson.D)
		for _, e := range d {
			do(e.Key, e.Value)
		}
	}
	for key, v := range fields {
		switch path := strings.Split(key, "."); {
		case key == "last": // the whole document
			each(v, func(slot string, v any) { each(v, func(field string, v any) { take(slot, field, v) }) })
		case path[0] == "last" && len(path) == 2: // a new slot
			each(v, func(field string, v any) { take(path[1], field, v) })
		case path[0] == "last" && len(path) == 3:
			take(path[1], path[2], v)
		}
	}
	for _, s := range slots {
		if s.arrival > newest.arrival {
			newest = *s
		}
	}
	return newest
}

// stamped is a number, or all numbers up to it, at a time.
type stamped struct {
	at     clock.Instant
	number int64
}

// requireOrder proves that what came first has the lower number: wherever before.at is earlier than after.at, before.number is
// less than after.number.
func requireOrder(t *testing.T, what string, before, after []stamped) {
	t.Helper()
	byTime := func(a, b stamped) int { return int(a.at - b.at) }
	before, after = slices.Clone(before), slices.Clone(after)
	slices.SortFunc(before, byTime)
	slices.SortFunc(after, byTime)
	highest := int64(0)
	for _, a := range after {
		for len(before) > 0 && before[0].at < a.at {
			highest = max(highest, before[0].number)
			before = before[1:]
		}
		require.Less(t, highest, a.number, what)
	}
}

// TestOrderIsThatOfCommits proves that grants come in the order in which the server committed the arrivals, with the order of
// commits taken from the server's log and the grants from the processes themselves: several processes with several callers
// each, so that arrivals are shared and the lock is passed on inside processes too.
func TestOrderIsThatOfCommits(t *testing.T) {
	t.Parallel()
	t.Run("lock", func(t *testing.T) {
		t.Parallel()
		o := runCrowds(t, crowd{Callers: 5, Rounds: 15, Takes: 3})
		require.Len(t, o.granted, len(o.calls))
		require.EqualValues(t, len(o.granted), o.issued(), "a number for each grant, and no other")
		// What made it worth proving.
		require.Greater(t, len(o.granted), 400)
		require.Greater(t, o.contended, len(o.granted)*8/10, "grants for which somebody else had to leave")
		require.Greater(t, o.shared, processes*10, "arrivals of several callers")
		require.Greater(t, o.passedOn, len(o.granted)/10, "grants by a caller of the same process")
		require.Greater(t, o.handedOn, len(o.granted)/10, "grants by another process")
		require.Greater(t, o.behind, len(o.granted)/2, "calls that came when a committed arrival still waited")
	})
	t.Run("mixed", func(t *testing.T) {
		t.Parallel()
		o := runCrowds(t, crowd{Callers: 4, Rounds: 30, Takes: 1, Mixed: true})
		var refused, givenUp int
		var tries []call
		last := int64(0) // token of a Lock
		for _, c := range o.calls {
			switch {
			case c.Try && c.Granted == 0:
				refused++
			case c.Try:
				tries = append(tries, c)
			case c.Granted == 0:
				givenUp++
			default:
				last = max(last, c.Token)
			}
		}
		// A refused TryLock takes no number. A wait given up takes one, or none when it ended before it was asked for.
		void := o.issued() - int64(len(o.granted))
		require.GreaterOrEqual(t, void, int64(0))
		require.LessOrEqual(t, void, int64(givenUp), "numbers without a grant")
		tries = slices.DeleteFunc(tries, func(c call) bool { return c.Token > last })
		t.Logf("%d grants by TryLock before the last by Lock, %d refusals, %d waits given up, %d of them with a number",
			len(tries), refused, givenUp, void)
		// Far below what is usual: how often the lock is free depends on the machine.
		require.Greater(t, len(tries), 10, "grants by TryLock between those by Lock")
		require.Greater(t, refused, 20)
		require.Greater(t, void, int64(5), "numbers given up")
		require.Greater(t, o.contended, 50, "grants for which somebody else had to leave")
		require.Greater(t, o.shared, 20, "arrivals of several callers")
		require.Greater(t, o.passedOn, 10, "grants by a caller of the same process")
		require.Greater(t, o.handedOn, 10, "grants by another process")
		require.Greater(t, o.behind, 10, "calls that came when a committed arrival still waited")
	})
}

const processes = 4

// observed is what a run of crowds has shown.
type observed struct {
	arrivals []committed // in the order of the log
	calls    []call
	granted  []call // of calls, in the order of their grants
	// How often it was the order that decided.
	contended, shared, passedOn, handedOn, behind int
}

// issued is how many numbers were.
func (o *observed) issued() int64 { return o.arrivals[len(o.arrivals)-1].hi - o.arrivals[0].lo + 1 }

// runCrowds lets processes contend for one lock and proves the order of what they saw.
func runCrowds(t *testing.T, c crowd) *observed {
	b := newBed(t)
	ctx, cancel := context.WithCancel(withLimit(t))
	t.Cleanup(cancel)
	const name = "x"
	log := b.follow(ctx, t, name)
	var workers []*worker
	for range processes {
		workers = append(workers, b.startWorker(workerConfig{TTL: 30 * time.Second}))
	}
	for i, w := range workers {
		c.Seed = uint64(i)
		require.NoError(t, w.in.Encode(order{Op: "crowd", Name: name, Crowd: c}))
	}
	o := &observed{}
	for i, w := range workers {
		for _, one := range w.await("crowd").Calls {
			require.Empty(t, one.Err)
			one.Process = i
			o.calls = append(o.calls, one)
			if one.Granted != 0 {
				o.granted = append(o.granted, one)
			}
		}
		w.order("close", 0, "") // and all that was given up is settled
	}
	for _, w := range workers {
		require.Empty(t, w.await("closed").Err)
	}
	var doc struct {
		Issued int64 `bson:"issued"`
	}
	require.NoError(t, b.coll("locks").FindOne(ctx, bson.D{{Key: "_id", Value: name}}).Decode(&doc))
	for len(o.arrivals) == 0 || o.arrivals[len(o.arrivals)-1].hi < doc.Issued {
		one, ok := <-log
		require.True(t, ok, "the log ended before all arrivals were in it")
		o.arrivals = append(o.arrivals, one)
	}
	cancel()
	o.prove(t)
	t.Logf("%d grants of %d arrivals: %d arrivals shared; %d grants contended, %d passed on inside a process, %d to another process; "+
		"%d calls came behind a known arrival that waited", len(o.granted), len(o.arrivals), o.shared, o.contended, o.passedOn, o.handedOn, o.behind)
	return o
}

func (o *observed) prove(t *testing.T) {
	// The order of grants is that of tokens, and nobody is granted before the last has begun to leave (I4, I5). That of tokens
	// is that of commits, since arrivals has seen each take the numbers after the last.
	slices.SortFunc(o.granted, func(a, b call) int { return int(a.Granted - b.Granted) })
	for i := 1; i < len(o.granted); i++ {
		last, next := o.granted[i-1], o.granted[i]
		require.Less(t, last.Token, next.Token, "grants are not in the order of tokens")
		require.LessOrEqual(t, last.Leaving, next.Granted, "two held the lock at one time")
		if next.Asked < last.Leaving {
			o.contended++
			if last.Process == next.Process {
				o.passedOn++
			} else {
				o.handedOn++
			}
		}
	}

	// Each token is one of an arrival of the slot of its process.
	slot := map[int]string{}
	arrived := map[int64]committed{} // by token
	at := 0
	for _, g := range o.granted {
		for at < len(o.arrivals) && o.arrivals[at].hi < g.Token {
			at++
		}
		require.Less(t, at, len(o.arrivals), "token %d is of no arrival", g.Token)
		a := o.arrivals[at]
		require.LessOrEqual(t, a.lo, g.Token, "token %d is of no arrival", g.Token)
		if slot[g.Process] == "" {
			slot[g.Process] = a.slot
		}
		require.Equal(t, slot[g.Process], a.slot, "token %d was taken by another process", g.Token)
		arrived[g.Token] = a
	}
	for _, a := range o.arrivals {
		if a.hi > a.lo {
			o.shared++
		}
	}

	// What is over before another call begins comes before it: a grant, an arrival that the server has committed, and inside a
	// process a call that stands in its queue.
	var asked, granted, known []stamped
	for _, g := range o.granted {
		asked = append(asked, stamped{g.Asked, g.Token})
		granted = append(granted, stamped{g.Granted, g.Token})
	}
	for _, a := range o.arrivals {
		known = append(known, stamped{a.learned, a.hi})
	}
	requireOrder(t, "a call that began after a grant has a lower token", granted, asked)
	requireOrder(t, "a call that began after an arrival was committed has a lower token", known, asked)
	for p := range processes {
		var entered, asked []stamped
		for _, g := range o.granted {
			if g.Process == p {
				entered = append(entered, stamped{g.Entered, g.Token})
				asked = append(asked, stamped{g.Asked, g.Token})
			}
		}
		requireOrder(t, "numbers are not in the order of the calls in a process", entered, asked)
	}
	for _, b := range o.granted {
		if slices.ContainsFunc(o.granted, func(a call) bool { return arrived[a.Token].learned < b.Asked && b.Asked < a.Granted }) {
			o.behind++
		}
	}
}
