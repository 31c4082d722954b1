package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/internal/cable"
)

// held makes procs[0] hold a lock of its own, and the others wait for it, in the order in which they are given.
func (r *Run) held(ctx context.Context, lock string, procs []*Proc) error {
	if len(procs) < 2 {
		return fmt.Errorf("faults: %d processes are left, 2 are needed", len(procs))
	}
	if _, err := procs[0].Hold(ctx, lock); err != nil {
		return err
	}
	for _, p := range procs[1:] {
		if err := p.Want(ctx, lock); err != nil {
			return err
		}
	}
	return nil
}

// killHolder kills a process that holds one lock for itself, and whatever else its callers hold or wait for at that moment, with
// two others behind it.
func killHolder() Row {
	return Row{
		Name:  "kill-holder",
		About: "a process that holds a lock gets SIGKILL, with two behind it; a new one takes its place",
		Crew:  usual(shortTTL),
		Bound: shortTTL + afterDeath,
		Fault: func(ctx context.Context, r *Run) error {
			return r.Rounds(ctx, 100*time.Millisecond, time.Second, func(i int) error {
				procs := r.Crew.Pick(3)
				if err := r.held(ctx, extraLock(i), procs); err != nil {
					return err
				}
				at := procs[0].Kill()
				r.Mark(Mark{What: "SIGKILL of a holder", Lock: extraLock(i), From: at, In: at})
				if _, err := r.Crew.Hire(ctx); err != nil {
					return err
				}
				return r.Recovered(ctx)
			})
		},
	}
}

// killWaiter has two processes at a time kill themselves at steps of a call, until every step had its turn and the time is over.
func killWaiter() Row {
	crew := usual(shortTTL)
	crew.TicketDelay = 20 * time.Millisecond
	return Row{
		Name:    "kill-waiter",
		About:   "processes kill themselves with a number and no ticket, with a ticket, while waiting, just granted, before and after giving back",
		Gate:    60,
		WhyGate: "tickets are made early so that nearly all calls come by all points, which is two more writes for each",
		Crew:    crew,
		Bound:   shortTTL + afterDeath,
		Short:   12 * time.Second,
		Fault: func(ctx context.Context, r *Run) error {
			var todo []Point
			return r.Rounds(ctx, 100*time.Millisecond, time.Second, func(int) error {
				if len(todo) == 0 {
					todo = append(todo, Points...)
					r.Rand.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
				}
				limit, cancel := context.WithTimeout(ctx, r.ttl()+afterDeath)
				defer cancel()
				for _, p := range r.Crew.Pick(2) {
					lock, at, err := p.Die(limit, todo[0])
					if err != nil {
						return err
					}
					r.Mark(Mark{What: "SIGKILL " + string(todo[0]), Lock: lock, From: at, In: at})
					todo = todo[1:]
				}
				for range 2 {
					if _, err := r.Crew.Hire(ctx); err != nil {
						return err
					}
				}
				return r.Recovered(ctx)
			})
		},
	}
}

// pauseHolder stops a process past its lease. When it goes on it must know at its first question that it has lost, and what it
// writes all the same must be refused.
func pauseHolder() Row {
	return Row{
		Name:  "pause-holder",
		About: "a process that holds a lock is stopped (SIGSTOP) past its lease, goes on, and writes to the register all the same",
		Crew:  usual(shortTTL),
		Bound: shortTTL + afterDeath,
		Fault: func(ctx context.Context, r *Run) error {
			return r.Rounds(ctx, 100*time.Millisecond, time.Second, func(i int) error {
				procs := r.Crew.Pick(2)
				if err := r.held(ctx, extraLock(i), procs); err != nil {
					return err
				}
				at, err := procs[0].Pause()
				if err != nil {
					return err
				}
				r.Mark(Mark{What: "SIGSTOP of a holder", Lock: extraLock(i), From: at, In: at})
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				// The next holder has to have written, or the old one's write is not stale.
				if err := r.Sleep(ctx, r.Between(100*time.Millisecond, time.Second)); err != nil {
					return err
				}
				if _, err := procs[0].Continue(); err != nil {
					return err
				}
				if _, err := procs[0].Told(ctx, extraLock(i)); err != nil {
					return err
				}
				return procs[0].Resume(ctx, extraLock(i))
			})
		},
		Expect: staleWriteRefused,
	}
}

// pauseShort stops a process for less than its lease: renewals are due every third of it, so a third is left for the pause and a
// third for being late.
func pauseShort() Row {
	const ttl = 6 * time.Second
	return Row{
		Name:  "pause-short",
		About: "a process that holds a lock is stopped (SIGSTOP) for less than its lease and goes on",
		Crew:  usual(ttl),
		Bound: 2 * time.Second,
		Fault: func(ctx context.Context, r *Run) error {
			return r.Rounds(ctx, 100*time.Millisecond, time.Second, func(i int) error {
				procs := r.Crew.Pick(2)
				if err := r.held(ctx, extraLock(i), procs); err != nil {
					return err
				}
				r.Harm()
				at, err := procs[0].Pause()
				if err != nil {
					return err
				}
				if err := r.Sleep(ctx, r.Between(ttl/12, ttl/3)); err != nil {
					return err
				}
				on, err := procs[0].Continue()
				if err != nil {
					return err
				}
				r.Mark(Mark{What: "SIGCONT of a holder", Lock: extraLock(i), From: on, In: at})
				if err := procs[0].Resume(ctx, extraLock(i)); err != nil {
					return err
				}
				return r.Recovered(ctx)
			})
		},
		Expect: NoLosses,
	}
}

// strays is why cursors are left where connections break.
const strays = "when a connection breaks the driver opens the stream anew by itself, and cannot close the cursor behind that connection"

// cutClient cuts the network of one process, which reaches the primary through a cable. Its holder must be told by its own clock,
// within the lease and before anybody else is granted.
func cutClient() Row {
	return Row{
		Name:  "cut-client",
		About: "the network between one process and the primary swallows everything, past the lease, and comes back",
		Crew: func() CrewOptions {
			o := usual(shortTTL)
			o.URI = func(r *Run, proc int) string {
				if proc == 1 {
					return r.cable(proc)
				}
				return r.Deployment.URI()
			}
			return o
		}(),
		Bound:  shortTTL + afterDeath,
		Strays: strays,
		Leaves: "the process that is cut off begins a new session while the end of the old one is under way",
		Fault: func(ctx context.Context, r *Run) error {
			far := r.Crew.All()[0]
			return r.Rounds(ctx, 100*time.Millisecond, time.Second, func(i int) error {
				procs := append([]*Proc{far}, r.Crew.Pick(2)...)
				if procs[1] == far {
					procs[1] = procs[2]
				}
				if err := r.held(ctx, extraLock(i), procs[:2]); err != nil {
					return err
				}
				network := r.cables[far.ID]
				network.Cut()
				cut := r.Now()
				r.Mark(Mark{What: "a holder cut off", Lock: extraLock(i), From: cut, In: cut})
				told, err := far.Told(ctx, extraLock(i))
				if err != nil {
					return err
				}
				if told > cut.Add(r.ttl()) {
					r.Violate("a holder is told within its lease: cut off at %d, it was told %v later, the lease is %v", cut, told.Sub(cut), r.ttl())
				}
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				network.Mend()
				return far.Resume(ctx, extraLock(i))
			})
		},
	}
}

// cable lays a cable from a process to the primary, and returns the address of its end.
func (r *Run) cable(proc int) string {
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	defer cancel()
	m, err := r.Set.Primary(ctx)
	if err == nil {
		var c *cable.Cable
		if c, err = cable.New(m.Addr()); err == nil {
			if r.cables == nil {
				r.cables = map[int]*cable.Cable{}
			}
			r.cables[proc] = c
			return "mongodb://" + c.Addr() + "/?directConnection=true"
		}
	}
	return "no cable: " + err.Error() // the process says so and ends
}

func (r *Run) closeCables() {
	for _, c := range r.cables {
		c.Close()
	}
}

// staleWriteRefused is the promise of rows in which holders write to the register after the next has.
func staleWriteRefused(r *Run) (broken []string) {
	ops, err := readOps(r.Dir)
	if err != nil {
		return []string{err.Error()}
	}
	for _, o := range ops {
		if o.Outcome == Refused {
			return nil
		}
	}
	return []string{"a stale write is refused: none was"}
}
