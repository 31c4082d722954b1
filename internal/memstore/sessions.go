package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fairlock/fairlock/reaper"
)

// Sessions is a [Client] as a reaper.Sessions.
type Sessions struct{ c *Client }

var _ reaper.Sessions = Sessions{}

// Sessions returns the client's side for sessions.
func (c *Client) Sessions() Sessions { return Sessions{c} }

// update changes one session. f reports whether it did; a session that is missing is zero.
func (s Sessions) update(ctx context.Context, op Op, id string, f func(st *state, x *reaper.Session, found bool) (bool, error)) (bool, error) {
	return write(ctx, s.c, op, id, func(st *state) (bool, bool, error) {
		x, found := st.sessions[id]
		changed, err := f(st, &x, found)
		if changed {
			st.sessions[id] = x
		}
		return changed, changed, err
	})
}

func prolong(st *state, x *reaper.Session, ttl time.Duration) {
	x.Beat++
	x.TTLMS = ttl.Milliseconds()
	x.ExpiresAt = st.time().Add(ttl)
}

// Begin implements [reaper.Sessions].
func (s Sessions) Begin(ctx context.Context, n reaper.Session) error {
	_, err := s.update(ctx, OpBeginSession, n.ID, func(st *state, x *reaper.Session, found bool) (bool, error) {
		if x.Ended {
			return false, reaper.ErrEnded
		}
		if !found {
			x.ID, x.StartedAt = n.ID, st.time()
		}
		x.Host, x.PID, x.Label = n.Host, n.PID, n.Label
		prolong(st, x, n.TTL())
		return true, nil
	})
	return err
}

// Renew implements [reaper.Sessions].
func (s Sessions) Renew(ctx context.Context, id string, ttl time.Duration) ([]reaper.Forced, error) {
	return write(ctx, s.c, OpRenew, id, func(st *state) ([]reaper.Forced, bool, error) {
		x, found := st.sessions[id]
		if !found || x.Ended {
			return nil, false, reaper.ErrEnded
		}
		prolong(st, &x, ttl)
		st.sessions[id] = x
		return st.forced[id], true, nil
	})
}

// Tell implements [reaper.Sessions].
func (s Sessions) Tell(ctx context.Context, id string, f reaper.Forced) (bool, error) {
	return write(ctx, s.c, OpTell, id, func(st *state) (bool, bool, error) {
		x, found := st.sessions[id]
		if !found || x.Ended {
			return false, false, nil
		}
		st.forced[id] = append(slices.Clone(st.forced[id]), f)
		return true, true, nil
	})
}

// End implements [reaper.Sessions].
func (s Sessions) End(ctx context.Context, id string, beat int64) (bool, error) {
	return s.update(ctx, OpEndSession, id, func(st *state, x *reaper.Session, found bool) (bool, error) {
		now := st.time()
		if !found || x.Ended || x.Beat != beat || !x.ExpiresAt.Before(now) && !x.ExpiresAt.After(now.Add(x.TTL())) {
			return false, nil
		}
		x.Ended, x.EndedAt = true, &now
		return true, nil
	})
}

// Bury implements [reaper.Sessions].
func (s Sessions) Bury(ctx context.Context, id string) error {
	_, err := s.update(ctx, OpBurySession, id, func(st *state, x *reaper.Session, found bool) (bool, error) {
		if found {
			return false, nil
		}
		now := st.time()
		x.ID, x.Ended, x.EndedAt = id, true, &now
		return true, nil
	})
	return err
}

// Remove implements [reaper.Sessions].
func (s Sessions) Remove(ctx context.Context, id string) error {
	_, err := write(ctx, s.c, OpRemove, id, func(st *state) (none, bool, error) {
		_, found := st.sessions[id]
		delete(st.sessions, id)
		delete(st.forced, id)
		return none{}, found, nil
	})
	return err
}

// MarkCleared implements [reaper.Sessions].
func (s Sessions) MarkCleared(ctx context.Context, id string) error {
	_, err := s.update(ctx, OpMarkCleared, id, func(_ *state, x *reaper.Session, _ bool) (bool, error) {
		changed := x.Ended && !x.Cleared
		x.Cleared = x.Cleared || x.Ended
		return changed, nil
	})
	return err
}

// Get implements [reaper.Sessions].
func (s Sessions) Get(ctx context.Context, ids []string) ([]reaper.Session, error) {
	return s.find(ctx, OpGetSessions, len(ids), func(x *reaper.Session) bool { return slices.Contains(ids, x.ID) })
}

// Now implements [reaper.Sessions].
func (s Sessions) Now(ctx context.Context) (time.Time, error) {
	return read(ctx, s.c, OpServerTime, "", func(st *state) time.Time { return st.time() })
}

// Uncleared implements [reaper.Sessions].
func (s Sessions) Uncleared(ctx context.Context, after string, limit int) ([]reaper.Session, error) {
	return s.find(ctx, OpUncleared, limit, func(x *reaper.Session) bool { return x.ID > after && !x.Cleared })
}

func (s Sessions) find(ctx context.Context, op Op, limit int, filter func(*reaper.Session) bool) ([]reaper.Session, error) {
	return read(ctx, s.c, op, "", func(st *state) []reaper.Session {
		var all []reaper.Session
		for _, x := range st.sessions {
			if filter(&x) {
				all = append(all, x)
			}
		}
		slices.SortFunc(all, func(a, b reaper.Session) int { return cmp.Compare(a.ID, b.ID) })
		return all[:min(len(all), limit)]
	})
}
