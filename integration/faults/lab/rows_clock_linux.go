package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock/integration/faults"
)

// clockTTL is the lease in rows that wait for one to end.
const clockTTL = 4 * time.Second

// mortalGate is why such rows have a lower gate.
const mortalGate = "with short ticket delays nearly each wait has a ticket, which triples the writes"

// mortal is a crew whose leases are waited for.
func mortal(ttl time.Duration) faults.CrewOptions {
	return faults.CrewOptions{TTL: ttl, TicketDelay: 20 * time.Millisecond}
}

// clockClient moves the wall clocks of all processes, each to a time of its own, while one of them dies.
func clockClient() faults.Row {
	return faults.Row{
		Name:  "clock-client",
		About: "the wall clocks of all processes jump to an hour ahead, an hour behind and back, and holders are killed meanwhile",
		Gate:  50, WhyGate: mortalGate,
		Crew:   mortal(clockTTL),
		Bound:  clockTTL + afterLease,
		Short:  20 * time.Second,
		Expect: faults.NoLosses,
		Fault: func(ctx context.Context, r *faults.Run) (err error) {
			clocks := map[int]*WallClock{}
			defer func() {
				for _, c := range clocks {
					err = errors.Join(err, c.Close())
				}
			}()
			offsets := []time.Duration{time.Hour, -time.Hour, 0}
			return r.Rounds(ctx, 100*time.Millisecond, time.Second, func(round int) error {
				h, err := holdAndWait(ctx, r, round)
				if err != nil {
					return err
				}
				for _, p := range r.Crew.Alive() {
					if clocks[p.ID] == nil {
						if clocks[p.ID], err = NewWallClock(p.PID()); err != nil {
							return err
						}
					}
					if err := clocks[p.ID].Set(offsets[r.Rand.IntN(len(offsets))]); err != nil {
						return err
					}
				}
				r.Mark(faults.Mark{What: "clocks jumped", Fresh: faults.Sent, Bound: 2 * time.Second})
				at := h.proc.Kill()
				r.Mark(faults.Mark{What: "holder killed under jumped clocks", Lock: h.lock, From: at, In: at})
				if _, err := r.Crew.Hire(ctx); err != nil {
					return err
				}
				return r.Recovered(ctx)
			})
		},
	}
}

var timed = kind{clocks: true}

// clockPrimary moves the primary's clock right after a holder has died, so that the dead one's lease ends by another clock than it was
// written by.
func clockPrimary() faults.Row {
	return faults.Row{
		Name:   "clock-primary",
		About:  "the primary's clock jumps an hour ahead, and another; each time a holder has just been killed",
		Deploy: timed.deploy,
		Gate:   50, WhyGate: mortalGate,
		Crew: mortal(clockTTL),
		// Never back: a mongod whose clock is set back while it runs is late with its own timers by as much, and confirms no majority
		// write meanwhile (seen for five minutes after an hour). clock-failover has a clock that is behind from the start.
		Bound:  2*clockTTL + afterLease,
		Short:  10 * time.Second,
		Expect: faults.NoLosses,
		Fault: func(ctx context.Context, r *faults.Run) error {
			s := siteOf(r)
			offset := time.Duration(0)
			const jumps = 2
			return r.Rounds(ctx, 0, time.Second, func(turn int) error {
				for jump := range jumps {
					offset += time.Hour
					_, i, err := s.primary(ctx)
					if err != nil {
						return err
					}
					h, err := holdAndWait(ctx, r, turn*jumps+jump)
					if err != nil {
						return err
					}
					at := h.proc.Kill()
					if err := s.clocks[i].Set(offset); err != nil {
						return err
					}
					if err := awaitTime(ctx, r, offset); err != nil {
						return err
					}
					r.Mark(faults.Mark{What: fmt.Sprintf("primary's clock at %v", offset), Fresh: faults.Sent, Bound: 5 * time.Second})
					r.Mark(faults.Mark{What: fmt.Sprintf("holder killed, primary's clock at %v", offset), Lock: h.lock, From: at, In: at})
					if _, err := r.Crew.Hire(ctx); err != nil {
						return err
					}
					if err := r.Recovered(ctx); err != nil {
						return err
					}
				}
				return requireNoneEnded(ctx, r)
			})
		},
	}
}

// clockFailover has a primary whose clock is right followed by one that is 45 s behind, and has been all the time: a server that is
// set back while it runs is late with its own timers by that much, which is another fault.
func clockFailover() faults.Row {
	const stepDown = 10 * time.Second
	// Above what a step-down can take: some confirm nothing for two heartbeats of 2 s, and a lease that is over then may be ended.
	const ttl = 12 * time.Second
	skewed := kind{clocks: true, behind: 45 * time.Second}
	return faults.Row{
		Name:   "clock-failover",
		About:  "the primary steps down, and the members that can follow it are 45 s behind; a holder has just been killed",
		Deploy: skewed.deploy,
		Gate:   50, WhyGate: mortalGate,
		Crew:   mortal(ttl),
		Bound:  2*ttl + afterLease + stepDown,
		Short:  25 * time.Second,
		Expect: faults.NoNeedlessLosses,
		Fault: func(ctx context.Context, r *faults.Run) error {
			s := siteOf(r)
			return r.Rounds(ctx, 0, time.Second, func(round int) error {
				h, err := holdAndWait(ctx, r, round)
				if err != nil {
					return err
				}
				at := h.proc.Kill()
				if err := s.StepDown(ctx, int(stepDown.Seconds())); err != nil {
					return err
				}
				r.Mark(faults.Mark{What: "step-down to another clock", From: at, Fresh: faults.Sent})
				r.Mark(faults.Mark{What: "holder killed before a step-down", Lock: h.lock, From: at, In: at})
				if _, err := r.Crew.Hire(ctx); err != nil {
					return err
				}
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				if round == 0 {
					// The first primary was member 0, whose clock is right.
					if err := awaitTime(ctx, r, -skewed.behind); err != nil {
						return err
					}
				}
				if err := requireNoneEnded(ctx, r); err != nil {
					return err
				}
				return s.WaitHealthy(ctx)
			})
		},
	}
}

// awaitTime waits until the primary's clock is offset from this machine's.
func awaitTime(ctx context.Context, r *faults.Run, offset time.Duration) error {
	return r.Until(ctx, fmt.Sprintf("a primary whose clock is at %v", offset), func() bool {
		var hello struct{ LocalTime time.Time }
		ask, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		err := r.DB.RunCommand(ask, bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
		return err == nil && time.Until(hello.LocalTime.Add(-offset)).Abs() < 10*time.Second
	})
}

// requireNoneEnded checks that no session of a living process has been ended, which nothing here gives others the right to do.
func requireNoneEnded(ctx context.Context, r *faults.Run) error {
	var ended []struct{ Label string }
	found, err := r.Coll("sessions").Find(ctx, bson.D{{Key: "ended", Value: true}})
	if err == nil {
		err = found.All(ctx, &ended)
	}
	if err != nil {
		return err
	}
	for _, p := range r.Crew.Alive() {
		for _, s := range ended {
			if s.Label == p.Label() {
				r.Violate("the session of a living process was ended: %s", s.Label)
			}
		}
	}
	return nil
}
