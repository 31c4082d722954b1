package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/memstore"
)

// beliefs is what clients think that they hold: from the answer that said so until they have asked for its end, or until leftMs after they sent the
// request is over.
type beliefs struct {
	t    *testing.T
	mu   sync.Mutex
	of   map[string]belief // by lock
	last map[string]int64  // newest token
	n    int
}

type belief struct {
	who   string
	token int64
	until time.Time
}

// hold notes an answer that says held.
func (bs *beliefs) hold(who string, v leaseView, sent time.Time) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	until := sent.Add(time.Duration(v.LeftMs) * time.Millisecond)
	now := time.Now()
	if was, ok := bs.of[v.Name]; ok && was.who != who && was.until.After(now) && until.After(now) {
		bs.t.Errorf("%s holds %s (token %d) beside %s (token %d, for another %v)", who, v.Name, v.Token, was.who, was.token, was.until.Sub(now))
	}
	if bs.of[v.Name].who != who {
		if v.Token <= bs.last[v.Name] {
			bs.t.Errorf("%s got token %d of %s after %d", who, v.Token, v.Name, bs.last[v.Name])
		}
		bs.last[v.Name] = v.Token
		bs.n++
	}
	bs.of[v.Name] = belief{who, v.Token, until}
}

// stop notes that a client believes so no longer.
func (bs *beliefs) stop(who, name string) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.of[name].who == who {
		delete(bs.of, name)
	}
}

// TestRandomClients: clients that ask, repeat, beat, release, crash and vanish as a seed says, on two gateways with a database that drops replies. No
// two ever believe to hold one mutex, and whoever asks gets it in the end.
func TestRandomClients(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(b *bed) {
				gateways := []*bed{b, b.beside()}
				defer gateways[1].end()
				bs := &beliefs{t: t, of: map[string]belief{}, last: map[string]int64{}}
				var heal []func()
				for _, g := range gateways {
					drops := rand.New(rand.NewPCG(seed, uint64(len(g.streams))+100))
					var mu sync.Mutex
					heal = append(heal, g.store.Hook(memstore.After, memstore.OpAny, func(context.Context, string) error {
						mu.Lock()
						defer mu.Unlock()
						if drops.IntN(50) == 0 {
							return memstore.ErrNoReply
						}
						return nil
					}))
				}
				var wg sync.WaitGroup
				for i := range 12 {
					g := gateways[i%2]
					w := &wanderer{bs: bs, c: g.client(aliceToken), who: fmt.Sprint("c", i), r: rand.New(rand.NewPCG(seed, uint64(i)+1000))}
					wg.Go(func() { w.wander(8) })
				}
				wg.Wait()
				for _, end := range heal {
					end()
				}
				require.Greater(t, bs.n, 40)
				t.Logf("%d holds", bs.n)
			}, func(_ *Config, f *fairlock.Config) { f.TTL = testTTL })
		})
	}
}

// wanderer is one client of TestRandomClients.
type wanderer struct {
	bs  *beliefs
	c   *client
	who string
	r   *rand.Rand
}

func (w *wanderer) pause(most time.Duration) { time.Sleep(time.Duration(w.r.Int64N(int64(most)))) }

func (w *wanderer) wander(rounds int) {
	for i := range rounds {
		lease := fmt.Sprintf("%s-%d", w.who, i)
		name := []string{"x", "y"}[w.r.IntN(2)]
		fields := fmt.Sprintf(`"name":%q`, name)
		switch w.r.IntN(8) {
		case 0: // asks and vanishes, in line or as the holder
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(w.r.Int64N(int64(3*time.Second)))+1)
			resp, err := w.c.send(ctx, "PUT", "/v1/leases/"+id(lease)+"?waitMs=60000", "{"+fields+"}")
			if err == nil {
				_ = resp.Body.Close()
			}
			cancel()
		case 1: // gives up
			w.c.put(lease, time.Duration(w.r.Int64N(int64(time.Second))), fields)
			w.c.release(lease)
		default:
			w.hold(lease, name, fields)
		}
		w.pause(time.Second)
	}
}

// hold gets the lock and keeps it for a while.
func (w *wanderer) hold(lease, name, fields string) {
	var v leaseView
	for deadline := time.Now().Add(10 * time.Minute); ; {
		if time.Now().After(deadline) {
			w.c.b.t.Errorf("%s has waited for ten minutes", lease)
			return
		}
		// Short polls, so that the time of the sending is a sharp bound.
		sent := time.Now()
		resp := w.c.put(lease, 200*time.Millisecond, fields)
		if resp.status == 202 {
			w.pause(time.Second)
			continue
		}
		if resp.status != 200 {
			return // lost already
		}
		v = resp.lease(w.c.b.t)
		w.bs.hold(lease, v, sent)
		break
	}
	for range w.r.IntN(4) {
		w.pause(testHeartbeat * 5 / 4) // sometimes too late
		sent := time.Now()
		resp := w.c.beat(lease)
		if resp.status != 200 {
			w.bs.stop(lease, name)
			return
		}
		w.bs.hold(lease, resp.lease(w.c.b.t), sent)
	}
	if w.r.IntN(5) == 0 {
		return // vanishes; it believes for as long as it may
	}
	w.pause(testHeartbeat / 4)
	w.bs.stop(lease, name)
	w.c.release(lease)
}
