package replset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// statePoll is the pace of waiting. A server tells nobody that it has become
// fit for a given purpose, so it is asked.
const statePoll = 50 * time.Millisecond

// answer is one member's hello, or why there is none.
type answer struct {
	m   *Member
	h   hello
	err error
}

// ask asks all members at the same time.
func (s *Set) ask(ctx context.Context) []answer {
	answers := make([]answer, len(s.members))
	var wg sync.WaitGroup
	for i, m := range s.members {
		answers[i].m = m
		if !m.answers() {
			answers[i].err = fmt.Errorf("%w: %s is dead or paused", ErrNotRunning, m.Addr())
			continue
		}
		wg.Go(func() { answers[i].h, answers[i].err = m.hello(ctx) })
	}
	wg.Wait()
	return answers
}

// Primary returns the member that says it is the primary: of two, the one elected
// last. It is a hint, since a deposed primary does not know; [Set.WaitPrimary] has
// proof. ErrNoPrimary if nobody says so.
func (s *Set) Primary(ctx context.Context) (*Member, error) {
	var best answer
	var errs []error
	for _, a := range s.ask(ctx) {
		switch {
		case a.err != nil:
			errs = append(errs, a.err)
		case !a.h.Writable:
		// Election ids grow with the term, and compare as bytes.
		case best.m == nil || bytes.Compare(best.h.ElectionID[:], a.h.ElectionID[:]) < 0:
			best = a
		}
	}
	if best.m == nil {
		return nil, errors.Join(append([]error{ErrNoPrimary}, errs...)...)
	}
	return best.m, nil
}

// Secondaries returns the members that say they are secondaries. Dead and paused
// ones say nothing.
func (s *Set) Secondaries(ctx context.Context) ([]*Member, error) {
	if s.opts.Standalone {
		return nil, ErrStandalone
	}
	var found []*Member
	for _, a := range s.ask(ctx) {
		if a.err == nil && a.h.Secondary {
			found = append(found, a.m)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return found, nil
}

// WaitPrimary waits for a primary that a majority follows: one that has had a
// write acknowledged by a majority during this call. On error, ctx has ended or
// the set is stopped; the error says what was missing last.
func (s *Set) WaitPrimary(ctx context.Context) (primary *Member, err error) {
	err = s.await(ctx, func(ctx context.Context) error {
		m, err := s.Primary(ctx)
		if err != nil {
			return err
		}
		if !s.opts.Standalone {
			if err := m.note(ctx, "majority"); err != nil {
				return err
			}
		}
		primary = m
		return nil
	}, nil)
	return primary, err
}

// WaitHealthy waits for I3: all members up, agreed on one primary, and reached by
// a write made during this call.
func (s *Set) WaitHealthy(ctx context.Context) error { return s.await(ctx, s.healthy, nil) }

// healthy is nil if I3 holds.
func (s *Set) healthy(ctx context.Context) error {
	var primary *Member
	answers := s.ask(ctx)
	for _, a := range answers {
		switch {
		case a.err != nil:
			return a.err
		case a.h.Writable && primary != nil:
			return fmt.Errorf("two primaries, %s and %s", primary.Addr(), a.m.Addr())
		case a.h.Writable:
			primary = a.m
		case !a.h.Secondary:
			return fmt.Errorf("%s is neither primary nor secondary", a.m.Addr())
		}
	}
	if primary == nil {
		return ErrNoPrimary
	}
	if s.opts.Standalone {
		return nil
	}
	for _, a := range answers {
		if a.h.Primary != primary.Addr() {
			return fmt.Errorf("%s takes %q for the primary, not %s", a.m.Addr(), a.h.Primary, primary.Addr())
		}
	}
	return primary.note(ctx, len(s.members))
}

// await calls holds until it returns nil, ctx ends, the set is stopped, or final,
// unless nil, says that there is no hope.
func (s *Set) await(ctx context.Context, holds func(context.Context) error, final func() error) error {
	tick := time.NewTicker(statePoll)
	defer tick.Stop()
	for {
		err := holds(ctx)
		if err == nil {
			return nil
		}
		if s.stopped.Load() {
			return ErrStopped
		}
		if final != nil {
			if ferr := final(); ferr != nil {
				return ferr
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("replset: waiting: %w; last: %w", context.Cause(ctx), err)
		}
	}
}

// StepDown asks the primary to step down for secs seconds, once a secondary has
// caught up. It returns when the primary has done so, which is before the next one
// is elected: see [Set.WaitPrimary]. A connection that breaks is a success if the
// member is no longer primary; older servers close it.
func (s *Set) StepDown(ctx context.Context, secs int) error {
	if s.opts.Standalone {
		return ErrStandalone
	}
	m, err := s.WaitPrimary(ctx)
	if err != nil {
		return err
	}
	// The server wants the catch-up time to be shorter than the step-down time.
	catchUp := min(10, max(0, secs-1))
	_, err = m.run(ctx, time.Duration(catchUp)*time.Second+noteLimit, bson.D{
		{Key: "replSetStepDown", Value: secs},
		{Key: "secondaryCatchUpPeriodSecs", Value: catchUp},
	})
	if err != nil && mongo.IsNetworkError(err) {
		if h, herr := m.hello(ctx); herr == nil && !h.Writable {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("replset: step down %s: %w", m.Addr(), err)
	}
	return nil
}
