package faults

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/history"
)

// operator is a manager of the harness, for what a row does to the locks of others. end closes it.
func (r *Run) operator(ctx context.Context) (m *fairlock.Manager, end func(), err error) {
	m, err = fairlock.New(ctx, r.DB, &fairlock.Config{TTL: shortTTL, Label: "operator"})
	if err != nil {
		return nil, nil, err
	}
	return m, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		_ = m.Close(ctx) // what is left of it is found by quiet
	}, nil
}

// forced takes locks from holders by hand: from those that listen, and from those that are stopped and hear of it when they go on; while all is well,
// and while the primary steps down. The next is admitted at once, and what the old holder writes all the same is refused.
func forced() Row {
	const told = shortTTL/3 + 2*time.Second // the next renewal, and a look
	return Row{
		Name:   "force",
		About:  "a lock is unlocked by force under its holder, which works, or is stopped (SIGSTOP), while the primary steps down or does not",
		Crew:   usual(shortTTL),
		Strays: strays,
		Bound:  2 * time.Second,
		Expect: staleWriteRefused,
		Fault: func(ctx context.Context, r *Run) error {
			m, end, err := r.operator(ctx)
			if err != nil {
				return err
			}
			defer end()
			return r.Rounds(ctx, 100*time.Millisecond, time.Second, func(i int) error {
				procs, lock := r.Crew.Pick(2), extraLock(i)
				if err := r.held(ctx, lock, procs); err != nil {
					return err
				}
				stopped, amid, bound := r.Rand.IntN(2) == 0, r.Rand.IntN(3) == 0, r.Row.Bound
				if err := m.RequestRelease(ctx, lock); err != nil {
					return err // nobody listens; that it harms nobody is judged by the history
				}
				var token int64
				if err := r.until(ctx, "the holder's ticket", func() bool {
					info, err := m.Inspect(ctx, lock)
					if err != nil || info == nil || len(info.Holders) == 0 || info.Holders[0].Owner == nil {
						return false
					}
					token = info.Holders[0].Token
					return true
				}); err != nil {
					return err
				}
				if stopped {
					if _, err := procs[0].Pause(); err != nil {
						return err
					}
				}
				if amid {
					bound += failover
					if err := r.Set.StepDown(ctx, 2); err != nil {
						return err
					}
				}
				at := r.Now()
				r.Crew.rec.Record(history.Event{Kind: history.Forced, At: at, Lock: lock, Lo: token})
				if err := r.force(ctx, m, lock, token); err != nil {
					return err
				}
				r.Mark(Mark{What: "ForceUnlock", Lock: lock, From: at, In: at, Bound: bound})
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				if stopped {
					// The next holder has to have written, or the old one's write is not stale.
					if err := r.Sleep(ctx, r.Between(100*time.Millisecond, time.Second)); err != nil {
						return err
					}
					if at, err = procs[0].Continue(); err != nil {
						return err
					}
				}
				heard, err := procs[0].Told(ctx, lock)
				if err != nil {
					return err
				}
				if late := heard.Sub(at); late > told+bound {
					r.Violate("the holder of %q heard of its end by force after %v, the bound is %v", lock, late, told+bound)
				}
				if err := procs[0].Resume(ctx, lock); err != nil {
					return err
				}
				return r.Set.WaitHealthy(ctx)
			})
		},
	}
}

// force repeats ForceUnlock until its outcome is known: its answer may be lost.
func (r *Run) force(ctx context.Context, m *fairlock.Manager, lock string, token int64) error {
	for {
		err := m.ForceUnlock(ctx, lock, token, "row force")
		if err == nil || ctx.Err() != nil || errors.Is(err, fairlock.ErrNotHeld) {
			return err
		}
	}
}

// permitted gives the callers' semaphores other permits all the time, fewer and more, while the primary steps down.
func permitted() Row {
	crew := usual(shortTTL)
	crew.Workload, crew.Cancel, crew.Hold = Semaphores, 10, 5*time.Millisecond
	return Row{
		Name:    "permits",
		About:   "semaphores get from 1 to 12 permits by SetPermits again and again, and the primary steps down; their users name 6",
		Gate:    60,
		WhyGate: "each unit that is given back by itself is a write of its own",
		Crew:    crew,
		Strays:  strays,
		Bound:   failover,
		Fault: func(ctx context.Context, r *Run) error {
			m, end, err := r.operator(ctx)
			if err != nil {
				return err
			}
			defer end()
			return r.Rounds(ctx, 50*time.Millisecond, 300*time.Millisecond, func(i int) error {
				r.Harm()
				for range 3 {
					lock := r.locks()[r.Rand.IntN(r.Row.Crew.Locks)]
					if err := r.setPermits(ctx, m, lock, 1+r.Rand.Int64N(2*permits)); err != nil {
						return err
					}
				}
				if i%4 != 0 {
					return nil
				}
				if err := r.stepDown(ctx, failover); err != nil {
					return err
				}
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				return r.Set.WaitHealthy(ctx)
			})
		},
	}
}

// setPermits sets them and takes down from which number on they count: the newest that was issued when they did, or later.
func (r *Run) setPermits(ctx context.Context, m *fairlock.Manager, lock string, n int64) error {
	s, err := m.Semaphore(lock, permits)
	if err != nil {
		return err
	}
	resized := history.Event{Kind: history.Resized, At: r.Now(), Lock: lock, Permits: n}
	for done := false; !done; {
		err := s.SetPermits(ctx, n)
		if ctx.Err() != nil {
			return err
		}
		done = err == nil
	}
	return r.until(ctx, "the lock document", func() bool {
		var doc struct {
			Issued int64 `bson:"issued"`
		}
		if r.Coll("locks").FindOne(ctx, bson.D{{Key: "_id", Value: lock}}).Decode(&doc) != nil {
			return false
		}
		resized.Lo = doc.Issued + 1
		r.Crew.rec.Record(resized)
		return true
	})
}
