package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/internal/history"
	"github.com/fairlock/fairlock/internal/replset"
)

// stepDown makes the primary step down again and again.
func stepDown() Row {
	return Row{
		Name:   "step-down",
		About:  "the primary steps down in order, again and again",
		Crew:   usual(0),
		Strays: strays,
		Bound:  failover,
		Fault: func(ctx context.Context, r *Run) error {
			return r.Rounds(ctx, time.Second, 3*time.Second, func(int) error {
				if err := r.stepDown(ctx, r.Row.Bound); err != nil {
					return err
				}
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				return r.Set.WaitHealthy(ctx)
			})
		},
		Expect: NoLosses,
	}
}

// failover is the bound of a step-down by itself.
const failover = 4 * time.Second

// stepDown makes the primary step down, from which recovery is measured.
func (r *Run) stepDown(ctx context.Context, bound time.Duration) error {
	from := r.Now()
	if err := r.Set.StepDown(ctx, 2); err != nil {
		return err
	}
	r.Mark(Mark{What: "step-down", From: from, In: r.Now(), Fresh: Sent, Bound: bound})
	return nil
}

// killPrimary kills the primary, and starts it again when its successor works.
func killPrimary() Row {
	return Row{
		Name:   "kill-primary",
		About:  "the primary gets SIGKILL, and is started again after the failover",
		Crew:   usual(0),
		Strays: strays,
		// An election comes after 10 to 12.6 s; a majority write then takes up to 2 s for a while, and a grant needs two.
		Bound: 20 * time.Second,
		Fault: func(ctx context.Context, r *Run) error {
			return r.Rounds(ctx, time.Second, 3*time.Second, func(int) error {
				primary, err := r.Set.WaitPrimary(ctx)
				if err != nil {
					return err
				}
				from := r.Now()
				if err := primary.Kill(); err != nil {
					return err
				}
				r.Mark(Mark{What: "SIGKILL of the primary", From: from, In: r.Now(), Fresh: Sent})
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				if err := primary.Restart(ctx); err != nil {
					return err
				}
				return r.Set.WaitHealthy(ctx)
			})
		},
		Expect: NoNeedlessLosses,
	}
}

// pausePrimary stops the primary past an election. What it believes when it goes on must fool nobody.
func pausePrimary() Row {
	return Row{
		Name:   "pause-primary",
		About:  "the primary is stopped (SIGSTOP) until another serves, and some seconds more, and goes on, deposed",
		Crew:   usual(0),
		Strays: strays,
		// As in lab/rows_network: an election, catching up, and the other member's reports to the frozen one.
		Bound: 40 * time.Second,
		Fault: func(ctx context.Context, r *Run) error {
			return r.Rounds(ctx, time.Second, 3*time.Second, func(int) error {
				primary, err := r.Set.WaitPrimary(ctx)
				if err != nil {
					return err
				}
				from := r.Now()
				if err := primary.Pause(); err != nil {
					return err
				}
				defer func() { _ = primary.Resume() }()
				r.Mark(Mark{What: "SIGSTOP of the primary", From: from, In: r.Now(), Fresh: Sent})
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				if err := r.Sleep(ctx, r.Between(0, 5*time.Second)); err != nil {
					return err
				}
				if err := primary.Resume(); err != nil {
					return err
				}
				if err := r.More(ctx, 50); err != nil {
					return err
				}
				return r.Set.WaitHealthy(ctx)
			})
		},
		Expect: NoNeedlessLosses,
	}
}

// freezeSecondaries takes the majority away for longer than the lease, and for as long that the primary may step down. Nothing can be
// acknowledged meanwhile; holders are told by their own clocks; all goes on after the thaw.
func freezeSecondaries() Row {
	const ttl = 4 * time.Second
	return Row{
		Name:   "freeze-secondaries",
		About:  "both secondaries are stopped (SIGSTOP) past the lease and go on",
		Crew:   usual(ttl),
		Strays: strays,
		// After the thaw: a heartbeat of 2 s, an election if the primary had stepped down, and the arrivals' pause.
		Bound:  15 * time.Second,
		Leaves: "sessions that lapsed may have been ended by others, and their owners have begun new ones",
		Fault: func(ctx context.Context, r *Run) error {
			return r.Rounds(ctx, time.Second, 2*time.Second, func(i int) error {
				procs := r.Crew.Pick(2)
				if err := r.held(ctx, extraLock(i), procs); err != nil {
					return err
				}
				secondaries, err := r.Set.Secondaries(ctx)
				if err != nil {
					return err
				}
				r.Harm()
				for _, m := range secondaries {
					if err := m.Pause(); err != nil {
						return err
					}
					defer func() { _ = m.Resume() }()
				}
				frozen := r.Now()
				told, err := procs[0].Told(ctx, extraLock(i))
				if err != nil {
					return err
				}
				if told > frozen.Add(ttl) {
					r.Violate("a holder is told by the end of its lease: it was told %v after the freeze, the lease is %v", told.Sub(frozen), ttl)
				}
				if err := r.Sleep(ctx, r.Between(time.Second, 8*time.Second)); err != nil {
					return err
				}
				thaw := r.Now()
				for _, m := range secondaries {
					if err := m.Resume(); err != nil {
						return err
					}
				}
				r.Mark(Mark{What: "no majority", From: thaw, In: thaw, Fresh: Acked})
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				for _, e := range r.Events() {
					if e.Kind == history.Arrived && e.Sent > frozen && e.At < thaw {
						r.Violate("nothing is acknowledged without a majority: %+v between %d and %d", e, frozen, thaw)
					}
				}
				if err := r.Set.WaitHealthy(ctx); err != nil {
					return err
				}
				return procs[0].Resume(ctx, extraLock(i))
			})
		},
	}
}

// slowSecondaries stops both secondaries again and again for moments, each with a rhythm of its own.
func slowSecondaries() Row {
	return Row{
		Name:   "slow-secondaries",
		About:  "both secondaries are stopped for 50 to 400 ms and go on for 50 to 200 ms, again and again",
		Crew:   usual(0),
		Strays: strays,
		Bound:  5 * time.Second,
		Fault: func(ctx context.Context, r *Run) error {
			secondaries, err := r.Set.Secondaries(ctx)
			if err != nil {
				return err
			}
			r.Mark(Mark{What: "slow secondaries", Fresh: Sent})
			stopped := map[*replset.Member]bool{}
			next := map[*replset.Member]Instant{}
			defer func() {
				for _, m := range secondaries {
					_ = m.Resume()
				}
			}()
			for end := r.Now().Add(r.Length); r.Now() < end; {
				for _, m := range secondaries {
					if r.Now() < next[m] {
						continue
					}
					stopped[m] = !stopped[m]
					do, d := m.Resume, r.Between(50*time.Millisecond, 200*time.Millisecond)
					if stopped[m] {
						do, d = m.Pause, r.Between(50*time.Millisecond, 400*time.Millisecond)
					}
					if err := do(); err != nil {
						return fmt.Errorf("slow secondary: %w", err)
					}
					next[m] = r.Now().Add(d)
				}
				if err := r.Sleep(ctx, 10*time.Millisecond); err != nil {
					return err
				}
			}
			return nil
		},
		Expect: NoLosses,
	}
}
