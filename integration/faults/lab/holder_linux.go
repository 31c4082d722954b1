package lab

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/fairlock/fairlock/integration/faults"
)

// held is a lock in the hands of one process, with two others waiting behind it.
type held struct {
	lock string
	proc *faults.Proc
}

// holdAndWait chooses the three processes by the run's seed. The lock is of the round.
func holdAndWait(ctx context.Context, r *faults.Run, round int) (held, error) {
	procs := r.Crew.Pick(3)
	if len(procs) < 3 {
		return held{}, errors.New("lab: fewer than three processes are alive")
	}
	h := held{lock: "x" + strconv.Itoa(round), proc: procs[0]}
	if _, err := h.proc.Hold(ctx, h.lock); err != nil {
		return h, err
	}
	for _, p := range procs[1:] {
		if err := p.Want(ctx, h.lock); err != nil {
			return h, err
		}
	}
	return h, nil
}

// told checks that the holder is told of its loss within a lease, by its own clock: nobody can reach it.
func (h held) told(ctx context.Context, r *faults.Run, from faults.Instant, ttl time.Duration) error {
	limit, cancel := context.WithTimeout(ctx, ttl+failover)
	defer cancel()
	at, err := h.proc.Told(limit, h.lock)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		r.Violate("the holder of %q was not told within %v", h.lock, ttl+failover)
	case err != nil:
		return err
	case at.Sub(from) > ttl:
		r.Violate("the holder of %q was told after %v, its lease is %v", h.lock, at.Sub(from), ttl)
	default:
		r.Note("holder told after %v", at.Sub(from).Round(time.Millisecond))
	}
	return nil
}

func (h held) resume(ctx context.Context) error { return h.proc.Resume(ctx, h.lock) }
