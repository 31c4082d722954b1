package fairlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
)

// ErrNotFound: there is no such lock. A lock that nobody has used for a day is not there either.
var ErrNotFound = errors.New("fairlock: no such lock")

// LockInfo is what the database says of one lock at one moment. Waits and holds shorter than Config.TicketDelay are seen
// as Place without an owner.
type LockInfo struct {
	Name    string  `json:"name"`
	Kind    string  `json:"kind"`
	Permits int64   `json:"permits"`
	Holders []Place `json:"holders"` // who is admitted, in order
	Waiters []Place `json:"waiters"` // who waits, in order
	// More is how many numbers stand behind the last place of Waiters: Inspect reads a bounded part of the queue.
	More      int64      `json:"more,omitempty"`
	LastToken int64      `json:"lastToken"` // newest number issued
	IdleSince *time.Time `json:"idleSince,omitempty"`
	// Managed: the permits are those of [Semaphore.SetPermits], whatever users name.
	Managed bool            `json:"managed,omitempty"`
	Request *ReleaseRequest `json:"request,omitempty"` // the newest, whether or not it was granted
	Forced  []ForcedUnlock  `json:"forced,omitempty"`  // the newest sixteen, oldest first
}

// ReleaseRequest is a call of [Manager.RequestRelease].
type ReleaseRequest struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
	// UpTo is the highest token that was admitted then: those who come after were not asked.
	UpTo int64 `json:"upTo"`
}

// ForcedUnlock is a call of [Manager.ForceUnlock]. It is in the lock's document for as long as that is kept: until a day after nobody has
// used the lock.
type ForcedUnlock struct {
	Token   int64     `json:"token"`
	Session string    `json:"session"` // that held it
	By      string    `json:"by"`
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
}

// Place is a place in line.
type Place struct {
	Token    int64 `json:"token"`
	Position int   `json:"position"` // 0 for holders, from 1 for waiters
	// Units is how many are held or waited for: 1 of a mutex and of a read lock, all that there are of a write lock. Without an
	// owner it is 1, since each number is a place of its own then.
	Units int64 `json:"units"`
	// Owner is nil while there is no ticket for the number: it is younger than the ticket delay, or its process died
	// before it wrote one.
	Owner *Owner `json:"owner,omitempty"`
}

// Owner is who stands behind a place.
type Owner struct {
	Session string `json:"session"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Label   string `json:"label,omitempty"`
	// Age is the time since the place was taken, Held that since it was admitted, LeaseLeft the time until the owner's lease is over unless it is renewed;
	// negative when it is over and nobody has acted on it yet. All by the server's clock.
	Age       time.Duration `json:"age"`
	Held      time.Duration `json:"held,omitempty"` // since it was admitted; only of the holder of a mutex
	LeaseLeft time.Duration `json:"leaseLeft"`
	Dead      bool          `json:"dead,omitempty"` // its session was ended: about to be cleared
}

// mostPlaces bounds what Inspect lists.
const mostPlaces = 1000

// Inspect shows one lock: who holds it, who waits in which order, and how long leases have left. All of it is read from
// the database, by majority. The reads are not one snapshot: a queue that moves can show a place that has just gone.
func (m *Manager) Inspect(ctx context.Context, name string) (*LockInfo, error) {
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	v, found, err := m.queue.View(ctx, name)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	tickets, err := m.queue.Tickets(ctx, name, v.Issued, mostPlaces)
	if err != nil {
		return nil, err
	}
	who, err := m.owners(ctx, tickets)
	if err != nil {
		return nil, err
	}
	info := &LockInfo{
		Name: v.Name, Kind: string(v.Kind), Permits: v.Permits, LastToken: v.Issued, IdleSince: v.IdleSince,
		Holders: []Place{}, Waiters: []Place{}, Managed: v.Managed,
	}
	if r := v.Request; r != nil {
		info.Request = &ReleaseRequest{By: r.By, At: r.At, UpTo: r.UpTo}
	}
	for _, f := range v.Audit {
		info.Forced = append(info.Forced, ForcedUnlock{Token: f.Token, Session: f.Session, By: f.By, Reason: f.Reason, At: f.At})
	}
	info.fill(&v, tickets, who)
	return info, nil
}

// owners is the sessions behind tickets, and the server's time at which they were read.
type owners struct {
	now      time.Time
	sessions map[string]*reaper.Session
}

func (m *Manager) owners(ctx context.Context, tickets []queue.Ticket) (owners, error) {
	o := owners{sessions: map[string]*reaper.Session{}}
	var ids []string
	for _, t := range tickets {
		if _, ok := o.sessions[t.Session]; !ok && t.Session != "" {
			o.sessions[t.Session] = nil
			ids = append(ids, t.Session)
		}
	}
	if len(ids) == 0 {
		return o, nil
	}
	sessions, err := m.sessions.Get(ctx, ids)
	if err != nil {
		return o, err
	}
	for i := range sessions {
		o.sessions[sessions[i].ID] = &sessions[i]
	}
	o.now, err = m.sessions.Now(ctx)
	return o, err
}

// fill lists the unsettled numbers in order. Units of one waiter that are admitted in part count as waiting.
func (info *LockInfo) fill(v *queue.View, tickets []queue.Ticket, who owners) {
	open := queue.Subtract(queue.Range{Lo: v.Settled + 1, Hi: v.Issued}, v.Done)
	t := 0
	passedOn := false // the head's owner is done with it and has passed the lock on inside its process
	for _, run := range open {
		for n := run.Lo; n <= run.Hi; {
			for t < len(tickets) && (tickets[t].Hi < n || tickets[t].Tomb) {
				t++
			}
			if len(info.Holders)+len(info.Waiters) == mostPlaces {
				info.More = v.Issued - n + 1
				return
			}
			p := Place{Token: n}
			last := n
			if t < len(tickets) && tickets[t].Range().Contains(n) {
				k := &tickets[t]
				last = min(n+k.Weight-1, k.Hi)
				if last <= k.Passed {
					// Done with inside its owner's process; settled with the rest of the range.
					passedOn = passedOn || last <= v.Frontier
					last = min(k.Passed, k.Hi, run.Hi)
					n = last + 1
					continue
				}
				p.Owner = who.of(k, int((n-k.ID.Lo)/k.Weight))
			}
			p.Units = min(last, run.Hi) - n + 1 // the rest was given back
			held := last <= v.Frontier || v.Permits == 1 && passedOn && len(info.Holders) == 0
			if held {
				if p.Owner != nil && v.Permits == 1 {
					p.Owner.Held = p.Owner.Age
					if v.CalledAt != nil {
						// The settle before it admitted it, unless it came to a free lock after that.
						p.Owner.Held = min(p.Owner.Age, who.now.Sub(*v.CalledAt))
					}
				}
				info.Holders = append(info.Holders, p)
			} else {
				p.Position = len(info.Waiters) + 1
				info.Waiters = append(info.Waiters, p)
			}
			n = last + 1
		}
	}
}

// of is the owner of the i-th waiter of a ticket.
func (o owners) of(t *queue.Ticket, i int) *Owner {
	owner := &Owner{Session: t.Session, Age: o.now.Sub(t.At)}
	if i < len(t.Labels) {
		owner.Label = t.Labels[i]
	}
	if s := o.sessions[t.Session]; s != nil {
		owner.Host, owner.PID, owner.Dead = s.Host, s.PID, s.Ended
		owner.LeaseLeft = s.ExpiresAt.Sub(o.now)
	}
	return owner
}

// LockSummary is one line of a list of locks.
type LockSummary struct {
	Name      string     `json:"name"`
	Kind      string     `json:"kind"`
	Permits   int64      `json:"permits"`
	Held      int64      `json:"held"`    // units admitted and not given back
	Waiting   int64      `json:"waiting"` // units that wait
	LastToken int64      `json:"lastToken"`
	IdleSince *time.Time `json:"idleSince,omitempty"`
	// Malformed says what is wrong with the document when it is none of fairlock's; only Name is set then. Such a name breaks no rule only
	// if ValidateName says so.
	Malformed string `json:"malformed,omitempty"`
}

// List shows all locks, also idle ones, by name. It reads the whole collection. Documents that somebody else has put there are
// in the list as malformed.
func (m *Manager) List(ctx context.Context) ([]LockSummary, error) {
	const page = 1000
	all := []LockSummary{}
	for after := ""; ; {
		views, err := m.queue.Page(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, v := range views {
			after = v.Name
			if strings.HasPrefix(v.Name, "\t") {
				continue // fairlock's own
			}
			if err := cmp.Or(v.Malformed, ValidateName(v.Name)); err != nil {
				all = append(all, LockSummary{Name: v.Name, Malformed: err.Error()})
				continue
			}
			s := LockSummary{Name: v.Name, Kind: string(v.Kind), Permits: v.Permits, LastToken: v.Issued, IdleSince: v.IdleSince}
			for _, r := range queue.Subtract(queue.Range{Lo: v.Settled + 1, Hi: v.Issued}, v.Done) {
				held := max(min(r.Hi, v.Frontier)-r.Lo+1, 0)
				s.Held += held
				s.Waiting += r.Units() - held
			}
			all = append(all, s)
		}
		if len(views) == 0 {
			return all, nil
		}
	}
}
