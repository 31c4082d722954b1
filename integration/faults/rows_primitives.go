package faults

import (
	"context"
	"time"
)

// primitive has everything happen to a crew with another workload than mutexes that the mutex has rows of its own for: a holder and the next
// in line are killed together, the primary steps down, after that or in the middle of it, and one call in ten is cancelled.
func primitive(workload Workload) Row {
	about := map[Workload]string{
		Semaphores: "semaphores of 6 permits, 1 to 6 at a time, given back in parts",
		ReadWrite:  "read/write locks, read by three of four",
		Sets:       "LockAll of 1 to 4 of 8 locks; grants are of single locks",
		Elections:  "elections",
	}[workload]
	crew := usual(shortTTL)
	crew.Workload, crew.Cancel = workload, 10
	// Longer than a register's write, so that units are held beside each other.
	crew.Hold = map[Workload]time.Duration{Semaphores: 5 * time.Millisecond, ReadWrite: 5 * time.Millisecond}[workload]
	gate, why := 100.0, ""
	switch workload {
	case Semaphores:
		gate, why = 60, "each unit that is given back by itself is a write of its own"
	case Sets:
		gate, why = 60, "a caller keeps what it has while it waits for the next, so few get all"
	}
	bound := shortTTL + afterDeath
	if workload == Sets {
		// The next waits for the second lock only when it has the first, and a number without a ticket is judged by how long it was seen:
		// what one dead process has left may cost a lease for each lock.
		bound += shortTTL
	}
	return Row{
		Name:    string(workload),
		Gate:    gate,
		WhyGate: why,
		About:   about + ": a holder and the next in line get SIGKILL, the primary steps down, one call in ten is cancelled",
		Crew:    crew,
		Strays:  strays,
		Bound:   bound,
		Short:   5 * time.Second,
		Fault: func(ctx context.Context, r *Run) error {
			return r.Rounds(ctx, 100*time.Millisecond, time.Second, func(i int) error {
				procs := r.Crew.Pick(3)
				if err := r.held(ctx, extraLock(i), procs); err != nil {
					return err
				}
				at := procs[0].Kill()
				procs[1].Kill()
				amid := r.Rand.IntN(2) == 0
				bound := r.Row.Bound
				if amid {
					bound += failover // I6
				}
				r.Mark(Mark{What: "SIGKILL of a holder and the next", Lock: extraLock(i), From: at, In: at, Bound: bound})
				if amid {
					// The dead may stand at all locks.
					if err := r.stepDown(ctx, bound); err != nil {
						return err
					}
				}
				for range 2 {
					if _, err := r.Crew.Hire(ctx); err != nil {
						return err
					}
				}
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				if !amid {
					if err := r.stepDown(ctx, failover); err != nil {
						return err
					}
					if err := r.Recovered(ctx); err != nil {
						return err
					}
				}
				return r.Set.WaitHealthy(ctx)
			})
		},
	}
}
