package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock/bench/contend"
	"github.com/fairlock/fairlock/bench/fair"
	"github.com/fairlock/fairlock/bench/run"
	"github.com/fairlock/fairlock/bench/stats"
)

// Result is what was measured with one number of gateways.
type Result struct {
	Gateways int          `json:"gateways"`
	Waiters  int          `json:"waiters"`
	HandOff  fair.Against `json:"hand_off"`
	// Idle is the processor time of all gateways in a second in which nothing moves, in ms.
	Idle float64 `json:"idle_cpu_ms_per_s"`
	// Memory is resident bytes of all gateways for each client, connections included; Resident is that of the largest in all.
	Memory   int64         `json:"bytes_per_client"`
	Resident int64         `json:"resident_bytes"`
	Joined   time.Duration `json:"joined_ns"` // until all stood in line
}

// String is one line for people.
func (r Result) String() string {
	return fmt.Sprintf("%d gateway(s), %d waiters: hand-off p50 %.2f ms, p99 %.2f ms; floor p50 %.2f ms; p50 %.2f times the floor; "+
		"idle %.1f ms of CPU per s; %d bytes for each client, %d MB resident; in line after %v",
		r.Gateways, r.Waiters, r.HandOff.Got.P50, r.HandOff.Got.P99, r.HandOff.Floor.P50, r.HandOff.P50(),
		r.Idle, r.Memory, r.Resident>>20, r.Joined.Round(time.Millisecond))
}

// Options are of [Measure].
type Options struct {
	Gateways, Waiters, Rounds int
	Pause                     time.Duration // before each hand-off and each floor
	Idle                      time.Duration // how long nothing moves
}

const warm = 30

// Measure starts gateways, brings the clients in line and measures.
func Measure(ctx context.Context, m *run.Mongo, o Options) (r Result, err error) {
	var gateways []*process
	defer func() {
		for _, g := range gateways {
			err = errors.Join(err, g.end())
		}
	}()
	for range o.Gateways {
		g, err := startProcess(m.Target())
		if err != nil {
			return r, err
		}
		gateways = append(gateways, g)
	}
	floor, end, err := m.Floor(ctx)
	if err != nil {
		return r, err
	}
	defer end()
	c := newCrowd(ctx, run.LockName(), o.Waiters)
	defer c.leave()
	if len(gateways) > 1 {
		client, err := contend.MongoClient(m.Target(), nil)
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, client.Disconnect(context.WithoutCancel(ctx))) }()
		c.issued = func(ctx context.Context) (int64, error) {
			var doc struct {
				Issued int64 `bson:"issued"`
			}
			err := client.Database(contend.Database).Collection("fairlock.locks").FindOne(ctx, bson.D{{Key: "_id", Value: c.lock}}).Decode(&doc)
			return doc.Issued, err
		}
	}
	r = Result{Gateways: o.Gateways, Waiters: o.Waiters}
	urls := func(i int) string { return gateways[i%len(gateways)].url }

	// One who holds, at each gateway once before anything is compared: it is warm then.
	for i := range gateways {
		w, err := c.join(urls(i))
		if err == nil {
			_, err = c.next(ctx)
		}
		if err == nil {
			err = c.release(w)
		}
		if err != nil {
			return r, err
		}
	}
	before, _, err := all(gateways)
	if err != nil {
		return r, err
	}
	began := time.Now()
	for i := range o.Waiters + 1 {
		if err := c.stand(ctx, urls(i)); err != nil {
			return r, fmt.Errorf("client %d: %w", i, err)
		}
	}
	r.Joined = time.Since(began)
	holder, err := c.next(ctx)
	if err != nil {
		return r, err
	}
	if err := c.idle(ctx, gateways, o, &r, before); err != nil {
		return r, err
	}
	return r, c.handOffs(ctx, o, holder, func(i int) string { return urls(o.Waiters + 1 + i) }, floor, &r)
}

// stand makes a client stand in line. With several gateways it returns when the database has given it its number: otherwise a gateway would take
// numbers for several of its clients at one time, and most hand-offs would be inside it.
func (c *crowd) stand(ctx context.Context, url string) error {
	if c.issued == nil {
		_, err := c.join(url)
		return err
	}
	before, err := c.issued(ctx)
	if err != nil {
		return err
	}
	if _, err := c.join(url); err != nil {
		return err
	}
	for {
		now, err := c.issued(ctx)
		if err != nil || now > before {
			return err
		}
	}
}

// idle measures what it costs that nothing moves.
func (c *crowd) idle(ctx context.Context, gateways []*process, o Options, r *Result, before int64) error {
	const tickets = 5 * time.Second // until all who wait have written theirs
	if err := run.Pause(ctx, tickets); err != nil {
		return err
	}
	_, began, err := all(gateways)
	if err != nil {
		return err
	}
	if err := run.Pause(ctx, o.Idle); err != nil {
		return err
	}
	with, ended, err := all(gateways)
	if err != nil {
		return err
	}
	r.Idle = stats.Millis((ended - began).Nanoseconds()) / o.Idle.Seconds()
	r.Memory = (with - before) / int64(o.Waiters+1)
	for _, g := range gateways {
		n, err := g.resident()
		if err != nil {
			return err
		}
		r.Resident = max(r.Resident, n)
	}
	return nil
}

// all is the memory and the processor time of all gateways.
func all(gateways []*process) (bytes int64, cpu time.Duration, err error) {
	for _, g := range gateways {
		n, failed := g.resident()
		d, also := g.cpu()
		bytes, cpu, err = bytes+n, cpu+d, errors.Join(err, failed, also)
	}
	return bytes, cpu, err
}

// next is the next grant.
func (c *crowd) next(ctx context.Context) (grant, error) {
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	select {
	case g := <-c.grants:
		return g, g.err
	case <-limit.C:
		return grant{}, errors.New("gateway: no grant within a minute")
	case <-ctx.Done():
		return grant{}, context.Cause(ctx)
	}
}

// handOffs measures rounds. holder holds.
func (c *crowd) handOffs(ctx context.Context, o Options, holder grant, url func(int) string, floor func(context.Context) error, r *Result) error {
	var hands, floors []int64
	for i := range warm + o.Rounds {
		if err := run.Pause(ctx, o.Pause); err != nil {
			return err
		}
		began := time.Now()
		if err := c.release(holder.who); err != nil {
			return err
		}
		g, err := c.next(ctx)
		switch {
		case err != nil:
			return err
		case g.token <= holder.token:
			return fmt.Errorf("gateway: token %d after %d", g.token, holder.token)
		case g.at.Before(began):
			return fmt.Errorf("gateway: granted %v before the release", began.Sub(g.at))
		}
		took := g.at.Sub(began).Nanoseconds()
		holder = g
		if err := c.stand(ctx, url(i)); err != nil {
			return err
		}
		if err := run.Pause(ctx, o.Pause); err != nil {
			return err
		}
		began = time.Now()
		if err := floor(ctx); err != nil {
			return err
		}
		if i >= warm {
			hands, floors = append(hands, took), append(floors, time.Since(began).Nanoseconds())
		}
	}
	r.HandOff = fair.Against{Got: stats.Of(hands), Floor: stats.Of(floors)}
	return nil
}
