package reaper

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/fairlock/fairlock/internal/chance"
	"github.com/fairlock/fairlock/queue"
)

// jitter spreads what many processes do: from half of d to one and a half.
func (r *Reaper) jitter(d time.Duration) time.Duration { return d/2 + chance.Upto(r.cfg.Chance, d) }

// sweep clears what nobody waits behind, if this process has the right to. The right is a fairlock lock, so in quiet
// one process does it; it is not needed for safety, since everything here rests on the same evidence as a look.
func (r *Reaper) sweep(ctx context.Context) {
	mine, watch := r.cfg.Sweep(ctx)
	for _, t := range watch {
		r.look(ctx, t, false)
	}
	if !mine || ctx.Err() != nil {
		return
	}
	r.counts.Sweeps.Add(1)
	for _, step := range []func(context.Context) error{r.sweepSessions, r.sweepTickets, r.sweepLocks, r.collect} {
		if err := step(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Log.Warn("fairlock: sweep", "error", err)
		}
	}
}

const sweepPage = 1000

// sweepSessions judges all sessions and clears the ended ones. What cannot be cleared keeps nobody else waiting.
func (r *Reaper) sweepSessions(ctx context.Context) error {
	var kept error // the first
	for after := ""; ; {
		call, cancel := context.WithTimeout(ctx, r.cfg.OpTimeout)
		page, err := r.cfg.Sessions.Uncleared(call, after, sweepPage)
		cancel()
		if err != nil {
			return err
		}
		for i := range page {
			s := &page[i]
			after = s.ID
			err := r.bounded(ctx, func(ctx context.Context) error {
				over, _, err := r.judge(ctx, s)
				if err != nil || !over {
					return err
				}
				return r.clearSessions(ctx, []string{s.ID})
			})
			if err != nil && !queue.Permanent(err) {
				return err
			}
			kept = cmp.Or(kept, err)
		}
		if len(page) == 0 {
			return kept
		}
	}
}

// sweepTickets deletes tickets and tombstones whose numbers are settled (their owner or reaper died between settling
// and deleting, or the write came late), and judges sessions that have tickets but no document.
func (r *Reaper) sweepTickets(ctx context.Context) error {
	var kept error // the first
	for after := (queue.TicketID{Lo: math.MinInt64}); ; {
		var page []queue.Ticket
		err := r.bounded(ctx, func(ctx context.Context) (err error) {
			page, err = r.cfg.Queue.AllTickets(ctx, after, sweepPage)
			return err
		})
		if err != nil || len(page) == 0 {
			return cmp.Or(err, kept)
		}
		after = page[len(page)-1].ID
		byLock := map[string][]queue.Ticket{}
		owners := map[string][]queue.Ticket{}
		for _, t := range page {
			byLock[t.ID.Lock] = append(byLock[t.ID.Lock], t)
			if !t.Tomb {
				owners[t.Session] = append(owners[t.Session], t)
			}
		}
		grace := map[string]time.Duration{}
		err = r.bounded(ctx, func(ctx context.Context) error { return r.dropGarbage(ctx, byLock, grace) })
		if err != nil && !queue.Permanent(err) {
			return err
		}
		kept = cmp.Or(kept, err)
		err = r.bounded(ctx, func(ctx context.Context) error { return r.judgeVanished(ctx, owners, grace) })
		if err != nil && !queue.Permanent(err) {
			return err
		}
		kept = cmp.Or(kept, err)
	}
}

// dropGarbage also notes the longest grace of the locks that each session has tickets of.
func (r *Reaper) dropGarbage(ctx context.Context, byLock map[string][]queue.Ticket, grace map[string]time.Duration) error {
	names := make([]string, 0, len(byLock))
	for name := range byLock {
		names = append(names, name)
	}
	views, err := r.cfg.Queue.Views(ctx, names)
	if err != nil {
		return err
	}
	var garbage []queue.TicketID
	for _, v := range views {
		for _, t := range byLock[v.Name] {
			grace[t.Session] = max(grace[t.Session], v.Grace())
			if t.Hi <= v.Settled {
				garbage = append(garbage, t.ID)
			}
		}
	}
	if len(garbage) == 0 {
		return nil
	}
	return r.cfg.Queue.DropTickets(ctx, garbage)
}

// judgeVanished handles tickets whose session is ended or has no document; live sessions are left to sweepSessions.
func (r *Reaper) judgeVanished(ctx context.Context, owners map[string][]queue.Ticket, grace map[string]time.Duration) error {
	ids := make([]string, 0, len(owners))
	for id := range owners {
		ids = append(ids, id)
	}
	sessions, err := r.cfg.Sessions.Get(ctx, ids)
	if err != nil {
		return err
	}
	state := map[string]*Session{}
	for i := range sessions {
		state[sessions[i].ID] = &sessions[i]
	}
	var ended []string
	for _, id := range ids {
		over := false
		if s := state[id]; s == nil {
			// The owner's ttl is at most the grace of the locks it has tickets of, where their documents still say so.
			if over, _, err = r.judgeAbsent(ctx, id, max(10*r.cfg.TTL, grace[id])); err != nil {
				return err
			}
		} else {
			over = s.Ended
		}
		if over {
			ended = append(ended, id)
		}
	}
	return r.clearSessions(ctx, ended)
}

// sweepLocks looks for orphan numbers in locks that have not moved since the last sweep. One that moves has somebody
// at its head who is alive.
func (r *Reaper) sweepLocks(ctx context.Context) error {
	still := map[string]queue.View{}
	for after := ""; ; {
		var names []string
		var views []queue.View
		err := r.bounded(ctx, func(ctx context.Context) (err error) {
			if names, err = r.cfg.Queue.BusyLocks(ctx, after, sweepPage); err != nil || len(names) == 0 {
				return err
			}
			views, err = r.cfg.Queue.Views(ctx, names)
			return err
		})
		if err != nil {
			return err
		}
		for _, v := range views {
			if old, ok := r.moved[v.Name]; ok && old.Settled == v.Settled {
				r.look(ctx, Target{Name: v.Name, Below: math.MaxInt64}, false)
			}
			still[v.Name] = v
		}
		if len(names) == 0 {
			r.moved = still
			r.seen.keepGaps(func(lock string) bool {
				_, busy := still[lock]
				_, target := r.due[lock]
				return busy || target
			})
			return ctx.Err()
		}
		after = names[len(names)-1]
	}
}

// collectPause is the time between two collections of one sweeper.
const collectPause = time.Hour

// collect deletes what nobody has needed for a day, for deployments in which nobody ran Setup.
func (r *Reaper) collect(ctx context.Context) error {
	now := r.cfg.Clock.Now()
	if r.collected != 0 && now.Sub(r.collected) < collectPause {
		return nil
	}
	r.collected = now
	return r.bounded(ctx, r.cfg.Queue.Collect)
}

// bounded gives one step its own deadline.
func (r *Reaper) bounded(ctx context.Context, step func(context.Context) error) error {
	call, cancel := context.WithTimeout(ctx, r.cfg.OpTimeout)
	defer cancel()
	return step(call)
}
