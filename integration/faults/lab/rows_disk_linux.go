package lab

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/integration/faults"
	"github.com/fairlock/fairlock/internal/replset"
)

// diskFull fills the primary's disk. The server ends itself then, as it should.
func diskFull() faults.Row {
	small := kind{disk: 512 << 20, opts: replset.Options{OplogMB: 32}}
	return faults.Row{
		Name:   "disk-full",
		About:  "the primary's disk is filled, at which the server ends itself; later it is started again with room",
		Deploy: small.deploy,
		Bound:  20 * time.Second, // as when the primary is killed: an election of 10 s
		Expect: faults.NoNeedlessLosses,
		Fault: func(ctx context.Context, r *faults.Run) error {
			s := siteOf(r)
			return r.Rounds(ctx, 200*time.Millisecond, 2*time.Second, func(int) error {
				m, i, err := s.primary(ctx)
				if err != nil {
					return err
				}
				from := r.Now()
				if err := s.disks[i].Fill(); err != nil {
					return err
				}
				if err := r.Until(ctx, "the server to end", func() bool { return !m.Alive() }); err != nil {
					return err
				}
				in := r.Now()
				r.Note("the server ended %v after its disk began to fill", in.Sub(from).Round(time.Millisecond))
				r.Mark(faults.Mark{What: "disk full", From: in, Fresh: faults.Sent})
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				if err := errors.Join(s.disks[i].Drain(), m.Restart(ctx)); err != nil {
					return err
				}
				return s.WaitHealthy(ctx)
			})
		},
	}
}

// diskSlow lets the primary, or both others, sync a few times a second only.
func diskSlow() faults.Row {
	return faults.Row{
		Name:   "disk-slow",
		About:  "the primary, or both others, may write to their disk only 20 times a second",
		Bound:  10 * time.Second,
		Short:  15 * time.Second,
		Expect: faults.NoLosses,
		Fault: func(ctx context.Context, r *faults.Run) (err error) {
			return r.Rounds(ctx, 200*time.Millisecond, time.Second, func(int) (err error) {
				primary, err := r.Set.WaitPrimary(ctx)
				if err != nil {
					return err
				}
				ofPrimary := r.Rand.IntN(2) == 0
				var all []*Throttle
				defer func() {
					for _, t := range all {
						err = errors.Join(err, t.Close())
					}
				}()
				set := func(what string, perSecond int) error {
					from := r.Now()
					for _, t := range all {
						if err := t.Set(perSecond); err != nil {
							return err
						}
					}
					r.Mark(faults.Mark{What: what, From: from, Fresh: faults.Sent})
					return r.Recovered(ctx)
				}
				for _, m := range r.Set.Members() {
					if (m == primary) != ofPrimary {
						continue
					}
					t, err := NewThrottle(r.Set.Dir())
					if err != nil {
						return err
					}
					all = append(all, t)
					if err := t.Add(m.PID()); err != nil {
						return err
					}
				}
				if err := set("disk slow", 20); err != nil {
					return err
				}
				if err := r.Sleep(ctx, r.Between(5*time.Second, 8*time.Second)); err != nil {
					return err
				}
				return set("disk fast again", 0)
			})
		},
	}
}
