package fairlock

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"unicode/utf8"

	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
)

// What operators do to locks of others.

// by is how this process signs what it does to locks of others.
func (m *Manager) by() string {
	host, _ := os.Hostname()
	return m.cfg.Label + " (" + host + ", pid " + strconv.Itoa(os.Getpid()) + ")"
}

// RequestRelease asks those who hold the lock at present to give it back. It forces nobody: a holder hears of it by [Lock.Requested],
// if its program asks there, within about a second. [Manager.Inspect] shows the newest request.
//
// When nobody holds the lock the error matches [ErrNotHeld]. Any other error means that the request may have been made or not; it may be
// repeated.
func (m *Manager) RequestRelease(ctx context.Context, name string) error {
	if err := ValidateName(name); err != nil {
		return err
	}
	noted, err := m.queue.RequestRelease(ctx, name, m.by())
	if err == nil && !noted {
		err = fmt.Errorf("%w: lock %q", ErrNotHeld, name)
	}
	return err
}

// ForceUnlock takes the lock from the holder with that token, so that the next in line is admitted at once. It is for a holder that
// hangs and does not answer to [Manager.RequestRelease], and it is dangerous: its process is told, with [LostForced], when it renews its
// lease, so after at most a third of its TTL, and sooner if somebody waits there too; until then it works beside the next holder,
// and only a resource that checks tokens ([github.com/fairlock/fairlock/fence]) notices.
//
// It ends exactly that grant, and only if the database shows that it is held: for the first second of a grant ([Config.TicketDelay])
// it does not know whose it is, and who waits is never touched. Otherwise the error matches [ErrNotHeld] and nothing was done. reason is 1 to
// 255 bytes of valid UTF-8; it stays in the lock's document with the time and who called, see [LockInfo.Forced].
//
// Any other error means that it may have been done or not: calling again with the same token is safe.
func (m *Manager) ForceUnlock(ctx context.Context, name string, token int64, reason string) error {
	if err := ValidateName(name); err != nil {
		return err
	}
	switch {
	case token < 1:
		return invalidOption("token", token, "must be positive")
	case reason == "" || len(reason) > 255 || !utf8.ValidString(reason):
		return invalidOption("reason", quoted(reason), "must have 1 to 255 bytes of valid UTF-8, has "+strconv.Itoa(len(reason)))
	}
	g, err := m.find(ctx, name, token)
	if err == nil && !g.forced {
		var done bool
		if done, err = m.queue.Force(ctx, name, g.passed, g.Range, queue.Forced{Token: token, Session: g.session, By: m.by(), Reason: reason}); err != nil {
			return err
		}
		if !done { // it is over, by another call of this perhaps; or it waits
			if g, err = m.find(ctx, name, token); err == nil && !g.forced {
				err = notHeld(name, token, "it waits")
			}
		}
	}
	if err != nil {
		return err
	}
	m.log().Warn("fairlock: unlocked by force", "lock", name, "token", token, "session", g.session, "reason", reason)
	// Where the session has ended there is nobody to tell.
	if _, err := m.sessions.Tell(ctx, g.session, reaper.Forced{Lock: name, Token: token}); err != nil {
		return fmt.Errorf("fairlock: lock %q, token %d: unlocked, and its holder could not be told: %w", name, token, err)
	}
	return nil
}

func notHeld(name string, token int64, why string) error {
	return fmt.Errorf("%w: lock %q, token %d: %s", ErrNotHeld, name, token, why)
}

// grant is what the database knows of a grant.
type grant struct {
	queue.Range
	passed  int64 // numbers right before it, of the same ticket, that its owner is done with
	session string
	forced  bool // it was unlocked by force; the rest but session is not set
}

// find looks for the grant whose token it is. The error matches ErrNotHeld when it is none, as far as tickets show.
func (m *Manager) find(ctx context.Context, name string, token int64) (grant, error) {
	v, found, err := m.queue.View(ctx, name)
	switch {
	case err != nil:
		return grant{}, err
	case !found:
		return grant{}, notHeld(name, token, "there is no such lock")
	}
	for _, f := range v.Audit {
		if f.Token == token {
			return grant{session: f.Session, forced: true}, nil
		}
	}
	switch {
	case token > v.Issued:
		return grant{}, notHeld(name, token, "it was not issued yet")
	case token <= v.Settled || len(queue.Subtract(queue.Range{Lo: token, Hi: token}, v.Done)) == 0:
		return grant{}, notHeld(name, token, "it was given back")
	}
	tickets, err := m.queue.Tickets(ctx, name, token, 2*queue.MostPermits)
	if err != nil {
		return grant{}, err
	}
	for _, t := range tickets {
		switch of := token - (token-t.ID.Lo)%t.Weight; {
		case t.Tomb || !t.Range().Contains(token):
		case of != token:
			return grant{}, notHeld(name, token, "it is one of the numbers of token "+strconv.FormatInt(of, 10))
		case token <= t.Passed:
			return grant{}, notHeld(name, token, "it was given back, inside its process")
		default:
			g := grant{Range: queue.Range{Lo: token, Hi: min(token+t.Weight-1, t.Hi)}, session: t.Session}
			if t.Passed == token-1 {
				g.passed = max(token-t.ID.Lo, 0)
			}
			return g, nil
		}
	}
	return grant{}, notHeld(name, token, "it has no ticket: it is younger than the ticket delay, or its process died before it wrote one")
}
