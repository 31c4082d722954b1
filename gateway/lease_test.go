package gateway

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/memstore"
)

const x = `"name":"x"`

func TestHoldAndRelease(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		v := c.held("a", x+`,"label":"one"`)
		require.Equal(t, "x", v.Name)
		require.Equal(t, "mutex", v.Kind)
		require.Positive(t, v.Token)
		require.EqualValues(t, testHeartbeat.Milliseconds(), v.HeartbeatMs)
		require.EqualValues(t, testHeartbeat.Milliseconds()*9/10, v.LeftMs)
		c.queued("b", x)
		require.Equal(t, "waiting", c.look("b").State)
		r := c.release("a")
		require.Equal(t, 200, r.status)
		require.Equal(t, "released", r.lease(t).State)
		require.Zero(t, r.lease(t).LeftMs)
		require.Equal(t, v.Token+1, c.held("b", x).Token)
		require.Equal(t, 200, c.release("b").status)
		require.Equal(t, 200, c.release("b").status, "may be repeated")
	})
}

// TestKinds: readers beside each other, units of a semaphore, each behind who came before.
func TestKinds(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("r1", `"name":"rw","kind":"read"`)
		c.held("r2", `"name":"rw","kind":"read"`)
		c.queued("w1", `"name":"rw","kind":"write"`)
		c.queued("r3", `"name":"rw","kind":"read"`)
		require.Equal(t, 423, c.put("w2", 0, `"name":"rw","kind":"write","try":true`).status)
		require.Equal(t, 423, c.put("r4", 0, `"name":"rw","kind":"read","try":true`).status)
		c.release("r1")
		c.queued("w1", `"name":"rw","kind":"write"`)
		c.release("r2")
		c.held("w1", `"name":"rw","kind":"write"`)
		c.queued("r3", `"name":"rw","kind":"read"`)
		c.release("w1")
		c.held("r3", `"name":"rw","kind":"read"`)
		c.release("r3")

		v := c.held("s1", `"name":"sem","kind":"semaphore","permits":3,"units":2`)
		require.EqualValues(t, 2, v.Units)
		require.EqualValues(t, 3, v.Permits)
		c.queued("s2", `"name":"sem","kind":"semaphore","permits":3,"units":2`)
		c.queued("s3", `"name":"sem","kind":"semaphore","permits":3`)
		require.Equal(t, 423, c.put("s4", 0, `"name":"sem","kind":"semaphore","permits":3,"try":true`).status)
		c.release("s1")
		c.held("s2", `"name":"sem","kind":"semaphore","permits":3,"units":2`)
		c.held("s3", `"name":"sem","kind":"semaphore","permits":3`)
		c.release("s2")
		c.release("s3")

		r := c.put("m", time.Second, `"name":"sem"`)
		require.Equal(t, 409, r.status)
		require.Equal(t, "urn:fairlock:mismatch", r.problem(t).Type)
		require.Contains(t, r.problem(t).Detail, "semaphore with 3 permits")
	})
}

// TestOrder: whoever has an answer stands before whoever asks then, whichever way each of them asks.
func TestOrder(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("first", x)
		const n = 40
		streams := map[int]*events{}
		for i := range n {
			if i%2 == 0 {
				b.client(bobToken).queued(fmt.Sprint("w", i), x+`,"heartbeatMs":60000`)
				continue
			}
			streams[i] = c.stream(fmt.Sprint("w", i), x)
			streams[i].want("waiting")
		}
		last := c.look("first").Token
		c.release("first")
		for i := range n {
			v := leaseView{}
			if e := streams[i]; e != nil {
				v = e.want("held").lease
				c.release(fmt.Sprint("w", i))
				e.gone()
			} else {
				v = b.client(bobToken).held(fmt.Sprint("w", i), x+`,"heartbeatMs":60000`)
				b.client(bobToken).release(fmt.Sprint("w", i))
			}
			require.Equal(t, last+1, v.Token)
			last = v.Token
		}
	})
}

// TestAnswersWaitForThePlace: no answer is given while the call is not in line.
func TestAnswersWaitForThePlace(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		// The lease is there, and its goroutine has not come to its call yet.
		b.s.mu.Lock()
		l := newLease(b.s, leaseKey{"alice", id("a")}, ask{name: "x", kind: mutex, heartbeat: testHeartbeat})
		b.s.all[l.key] = l
		b.s.live++
		b.s.liveOf[l.key.client]++
		b.s.waits.Add(1)
		b.s.mu.Unlock()
		answer := make(chan int, 1)
		go func() { answer <- c.put("a", 0, x).status }()
		synctest.Wait()
		require.Empty(t, answer)
		b.s.leases.Go(l.run)
		require.Contains(t, []int{200, 202}, <-answer)
	})
}

// TestGrantToNobody: a grant that comes when its place has just been given up goes back.
func TestGrantToNobody(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", x)
		c.queued("b", x)
		c.release("b")
		lock, err := b.m.Lock(context.Background(), "y")
		require.NoError(t, err)
		require.False(t, b.s.all[leaseKey{"alice", id("b")}].granted(lock, nil))
		require.Equal(t, "left", c.look("b").State)
		require.NoError(t, lock.Unlock(context.Background()))
	})
}

// TestRepeatedRequest: an id is one place in line, however often it is asked for.
func TestRepeatedRequest(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		first := c.held("a", x)
		again := c.held("a", x)
		require.Equal(t, first.Token, again.Token)
		r := c.put("a", 0, `"name":"y"`)
		require.Equal(t, 409, r.status)
		require.Equal(t, "urn:fairlock:conflict", r.problem(t).Type)

		// The reply to the first request is lost; the repetition waits in its place.
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			resp, err := b.client(aliceToken).send(ctx, "PUT", "/v1/leases/"+id("b")+"?waitMs=60000", "{"+x+"}")
			if err == nil {
				_ = resp.Body.Close()
			}
		}()
		synctest.Wait()
		cancel()
		<-gone
		synctest.Wait()
		c.queued("b", x)
		c.queued("c", x)
		c.release("a")
		require.Equal(t, first.Token+1, c.held("b", x).Token)

		// A repetition that comes after all is over takes nothing.
		c.release("b")
		r = c.put("b", 0, x)
		require.Equal(t, 410, r.status)
		p := r.problem(t)
		require.Equal(t, "urn:fairlock:released", p.Type)
		require.Equal(t, "released", p.Lease.State)
		c.held("c", x)
		c.release("c")
		require.EqualValues(t, 3, b.m.Stats().Grants)

		// Ids of others are others.
		require.Equal(t, 404, b.client(bobToken).beat("a").status)
		require.Equal(t, 404, b.client(bobToken).release("a").status)
		b.client(bobToken).held("a", x)
		b.client(bobToken).release("a")

		// After a minute it is forgotten.
		time.Sleep(keepOver)
		require.Equal(t, 404, c.beat("b").status)
	})
}

// TestHeartbeat: a hold goes on while it is heard of, and ends to the instant when it is not.
func TestHeartbeat(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", x)
		next := c.stream("b", x)
		next.want("waiting")
		for range 5 {
			time.Sleep(testHeartbeat - time.Millisecond)
			r := c.beat("a")
			require.Equal(t, 200, r.status)
			require.Equal(t, "held", r.lease(t).State)
		}
		time.Sleep(testHeartbeat / 2)
		c.look("a") // does not count
		began := time.Now()
		ev := next.next()
		require.Equal(t, "held", ev.name)
		require.Equal(t, testHeartbeat/2, time.Since(began))

		r := c.beat("a")
		require.Equal(t, 410, r.status)
		p := r.problem(t)
		require.Equal(t, "urn:fairlock:lost", p.Type)
		require.Equal(t, notHeard, p.Lease.Reason)
		require.Equal(t, 410, c.release("a").status)
		require.Equal(t, 410, c.put("a", 0, x).status)
		c.release("b")
		next.gone()
	})
}

// TestPlaceIsLeft: who waits and is not heard of loses its place, and no lock is granted to it.
func TestPlaceIsLeft(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", x+`,"heartbeatMs":600000`)
		c.queued("b", x)
		time.Sleep(testHeartbeat + time.Millisecond)
		require.Equal(t, "left", c.look("b").State)
		r := c.put("b", 0, x)
		require.Equal(t, 410, r.status)
		require.Equal(t, "urn:fairlock:left", r.problem(t).Type)
		require.Equal(t, notHeard, r.problem(t).Lease.Reason)
		require.Equal(t, 410, c.beat("b").status)
		require.Equal(t, 200, c.release("b").status)

		c.queued("c", x)
		require.Equal(t, 200, c.release("c").status, "withdrawn")
		require.Equal(t, withdrawn, c.look("c").Reason)
		c.release("a")
		c.held("d", x)
		c.release("d")
		require.EqualValues(t, 2, b.m.Stats().Grants)
	})
}

// TestVanishedPoll: a client is gone, without a word, at the moment of its grant. The next waits for no longer than its heartbeat time.
func TestVanishedPoll(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", x)
		// Its request stays: the gateway has no way to see that nobody reads the answer.
		conn, err := b.ln.dial(context.Background())
		require.NoError(t, err)
		body := "{" + x + "}"
		_, err = fmt.Fprintf(conn, "PUT /v1/leases/%s?waitMs=60000 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			id("b"), aliceToken, len(body), body)
		require.NoError(t, err)
		synctest.Wait()
		next := c.stream("c", x)
		next.want("waiting")
		c.release("a")
		began := time.Now()
		go func() { _, _ = io.Copy(io.Discard, conn) }() // the kernel takes the answer
		ev := next.next()
		require.Equal(t, "held", ev.name)
		require.Equal(t, testHeartbeat, time.Since(began))
		require.Equal(t, notHeard, c.look("b").Reason)
		require.NoError(t, conn.Close())
		next.drop()
	})
}

// TestStreamKeeps: an open stream keeps a hold alive, with events that say so, and its end begins the time to come back.
func TestStreamKeeps(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		holder := c.stream("a", x)
		first := holder.holds()
		next := c.stream("b", x)
		next.want("waiting")
		began := time.Now()
		for i := range 40 {
			ev := holder.next()
			require.Equal(t, "held", ev.name)
			require.Equal(t, first.Token, ev.lease.Token)
			require.Equal(t, time.Duration(i+1)*testHeartbeat/4, time.Since(began))
			require.EqualValues(t, testHeartbeat.Milliseconds()*4/10, ev.lease.LeftMs)
		}
		// It breaks and comes back in time.
		holder.drop()
		time.Sleep(testHeartbeat/2 - time.Millisecond)
		holder = c.open("GET", "/v1/leases/"+id("a")+"/events", "")
		holder.want("held")
		time.Sleep(testHeartbeat)
		holder.drop()
		// It breaks and does not come back.
		began = time.Now()
		require.Equal(t, "held", next.next().name)
		require.Equal(t, testHeartbeat/2, time.Since(began))

		holder = c.open("GET", "/v1/leases/"+id("a")+"/events", "")
		ev := holder.want("lost")
		require.Equal(t, notHeard, ev.lease.Reason)
		holder.over()
		next.drop()
	})
}

// TestStreamThatDoesNotKeep: with heartbeats only, an open stream tells and does not keep.
func TestStreamThatDoesNotKeep(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		s := c.stream("a", x+`,"renew":"heartbeat"`)
		s.holds()
		began := time.Now()
		for {
			ev := s.next()
			if ev.name == "held" {
				continue
			}
			require.Equal(t, "lost", ev.name)
			require.Equal(t, notHeard, ev.lease.Reason)
			break
		}
		require.Equal(t, testHeartbeat, time.Since(began))
		s.over()
	})
}

// TestLossIsTold: at once on a stream, and at the next heartbeat.
func TestLossIsTold(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		s := c.stream("a", x+`,"maxHoldMs":3000`)
		s.holds()
		c.held("y", `"name":"y","heartbeatMs":600000`)
		began := time.Now()
		var ev event
		for ev = s.next(); ev.name == "held"; ev = s.next() {
			require.LessOrEqual(t, ev.lease.LeftMs, (3*time.Second - time.Since(began)).Milliseconds())
		}
		require.Equal(t, "lost", ev.name)
		require.Equal(t, lostMaxHold, ev.lease.Reason)
		require.Equal(t, 3*time.Second, time.Since(began))
		s.over()
		// The holder has the margin to stop, unless it says that it has.
		require.Equal(t, 202, c.put("b", 900*time.Millisecond, x).status)
		require.Equal(t, 410, c.release("a").status)
		require.Equal(t, 200, c.put("b", 50*time.Millisecond, x).status)
		c.release("b")

		// The session is ended by somebody else.
		s = c.stream("z", `"name":"z"`)
		s.holds()
		b.srv.EndSession(b.m.Session())
		for ev = s.next(); ev.name == "held"; ev = s.next() {
		}
		require.Equal(t, "lost", ev.name)
		// By the end of its lease, or by what the reaper has settled of it, whichever it sees first.
		why := []reason{lostSession, lostSettled}
		require.Contains(t, why, ev.lease.Reason)
		s.over()
		time.Sleep(testTTL)
		r := c.beat("y")
		require.Equal(t, 410, r.status)
		require.Contains(t, why, r.problem(t).Lease.Reason)
	})
}

// TestForce: an operator takes a lock away, and its holder is told that.
func TestForce(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		s := c.stream("a", x)
		token := s.holds().Token
		time.Sleep(time.Second) // for the ticket
		require.NoError(t, b.m.ForceUnlock(context.Background(), "x", token, "night shift"))
		ev := s.last()
		require.Equal(t, "lost", ev.name)
		require.Equal(t, lostForced, ev.lease.Reason)
		s.over()
		require.Contains(t, c.release("a").problem(t).Detail, "is lost: forced")
	})
}

// TestReasonsOfLoss: each way to lose a lock has a word of its own. Sets are none of the gateway's.
func TestReasonsOfLoss(t *testing.T) {
	t.Parallel()
	seen := map[reason]fairlock.LossReason{}
	for r := fairlock.LostLease; r.String() != "unknown reason"; r++ {
		if r == fairlock.LostOther {
			continue
		}
		why := reasonOfLoss(&fairlock.LostError{Name: "x", Token: 1, Reason: r})
		other, taken := seen[why]
		require.False(t, taken, "%v and %v are both %q", r, other, why)
		seen[why] = r
	}
	require.Len(t, seen, len(fairlock.LossReasons())-1)
}

// TestLeftIsAlwaysThere: who reads leftMs finds a number, also in the last tenth of the heartbeat time.
func TestLeftIsAlwaysThere(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", x)
		time.Sleep(testHeartbeat - time.Millisecond)
		r := c.do("GET", "/v1/leases/"+id("a"), "")
		require.Equal(t, "held", r.lease(t).State)
		require.Contains(t, string(r.body), `"leftMs":0,`)
	})
}

// TestNotObtained: a limit that has passed, or a try. Not obtained is 423, and final.
func TestNotObtained(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", x+`,"heartbeatMs":600000`)
		began := time.Now()
		r := c.put("b", time.Minute, x+`,"maxWaitMs":2500`)
		require.Equal(t, 423, r.status)
		require.Equal(t, "urn:fairlock:wait-limit", r.problem(t).Type)
		require.Equal(t, 2500*time.Millisecond, time.Since(began))
		require.Equal(t, 423, c.put("b", 0, x+`,"maxWaitMs":2500`).status, "the same again")
		r = c.put("c", time.Minute, x+`,"try":true`)
		require.Equal(t, 423, r.status)
		require.Equal(t, "urn:fairlock:busy", r.problem(t).Type)
		s := c.stream("d", x+`,"try":true`)
		for ev := s.next(); ; ev = s.next() {
			if ev.name != "waiting" {
				require.Equal(t, "left", ev.name)
				require.Equal(t, isBusy, ev.lease.Reason)
				require.Contains(t, ev.lease.Detail, "busy")
				break
			}
		}
		s.over()
		began = time.Now()
		require.Equal(t, 202, c.put("e", 7*time.Second, x).status)
		require.Equal(t, 7*time.Second, time.Since(began))
	})
}

// TestTryIsAnsweredWithItsOutcome: however short its request may wait.
func TestTryIsAnsweredWithItsOutcome(t *testing.T) {
	bubble(t, func(b *bed) {
		const try = x + `,"try":true,"heartbeatMs":60000`
		c := b.alice()
		slow := b.store.Hook(memstore.Before, memstore.OpTry, func(context.Context, string) error {
			time.Sleep(50 * time.Millisecond) // the way to the database
			return nil
		})
		require.Equal(t, 200, c.put("a", 0, try).status)
		require.Equal(t, 423, c.put("b", 0, try).status, "busy here")
		other := b.beside()
		defer other.end()
		require.Equal(t, 423, other.alice().put("c", 0, try).status, "busy there")
		c.release("a")
		slow()

		mute := b.store.Hook(memstore.Before, memstore.OpTry, memstore.Hang)
		began := time.Now()
		r := c.put("d", 0, try)
		require.Equal(t, 202, r.status, "nobody knows")
		require.Equal(t, "waiting", r.lease(t).State)
		require.Equal(t, confirmLimit, time.Since(began))
		mute()
		r = c.put("d", 0, try)
		require.Equal(t, 200, r.status, "%s", r.body)
		c.release("d")
	}, func(_ *Config, of *fairlock.Config) {
		of.TTL = 3 * confirmLimit // a try gives up by itself at the end of its lease
	})
}

// TestUnconfirmedRelease: the database is out of reach. The lock is given back all the same, and the answer says what it knows.
func TestUnconfirmedRelease(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		c.held("a", x)
		remove := b.store.Hook(memstore.Before, memstore.OpSettle, memstore.Hang)
		began := time.Now()
		r := c.release("a")
		require.Equal(t, 202, r.status)
		require.Equal(t, "releasing", r.lease(t).State)
		require.Equal(t, confirmLimit, time.Since(began))
		require.Equal(t, 410, c.beat("a").status)
		remove()
		time.Sleep(10 * time.Second)
		require.Equal(t, "released", c.look("a").State)
	})
}

// TestDatabaseRefuses: what fairlock cannot read or write is 502.
func TestDatabaseRefuses(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		defer b.store.Hook(memstore.Before, memstore.OpTry, func(context.Context, string) error {
			return mongo.CommandError{Code: 13, Name: "Unauthorized"}
		})()
		defer b.store.Hook(memstore.Before, memstore.OpView, func(context.Context, string) error { return memstore.ErrNoReply })()
		defer b.store.Hook(memstore.Before, memstore.OpPage, func(context.Context, string) error { return memstore.ErrNoReply })()
		r := c.put("a", time.Second, x+`,"try":true`)
		require.Equal(t, 502, r.status)
		require.Equal(t, "urn:fairlock:database", r.problem(t).Type)
		require.Equal(t, database, r.problem(t).Lease.Reason)
		require.Equal(t, 502, c.do("GET", "/v1/locks", "").status)
		require.Equal(t, 502, c.do("GET", "/v1/queue?name=x", "").status)
	})
}
