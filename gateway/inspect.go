package gateway

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/fairlock/fairlock"
)

// queueView is a lock with its holders and its queue.
type queueView struct {
	lockView
	Holders []placeView `json:"holders"`
	Waiters []placeView `json:"waiters"`
	More    int64       `json:"more,omitempty"` // behind the last of Waiters, where no more are read
}

// lockView is one line of a list of locks.
type lockView struct {
	Name      string     `json:"name"`
	Kind      string     `json:"kind,omitempty"`
	Permits   int64      `json:"permits,omitempty"`
	Held      int64      `json:"held"`
	Waiting   int64      `json:"waiting"`
	LastToken int64      `json:"lastToken"`
	IdleSince *time.Time `json:"idleSince,omitempty"`
	Malformed string     `json:"malformed,omitempty"`
}

type placeView struct {
	Token    int64      `json:"token"`
	Position int        `json:"position"`
	Owner    *ownerView `json:"owner,omitempty"`
}

type ownerView struct {
	Session     string `json:"session"`
	Host        string `json:"host,omitempty"`
	PID         int    `json:"pid,omitempty"`
	Label       string `json:"label,omitempty"`
	Dead        bool   `json:"dead,omitempty"`
	AgeMs       int64  `json:"ageMs"`
	HeldMs      int64  `json:"heldMs,omitempty"`
	LeaseLeftMs int64  `json:"leaseLeftMs"`
}

func viewOfSummary(s *fairlock.LockSummary) lockView {
	return lockView{s.Name, s.Kind, s.Permits, s.Held, s.Waiting, s.LastToken, s.IdleSince, s.Malformed}
}

func viewOfInfo(i *fairlock.LockInfo) *queueView {
	q := &queueView{Holders: viewOfPlaces(i.Holders), Waiters: viewOfPlaces(i.Waiters), More: i.More}
	q.lockView = lockView{
		Name: i.Name, Kind: i.Kind, Permits: i.Permits, Held: int64(len(i.Holders)), Waiting: int64(len(i.Waiters)) + i.More,
		LastToken: i.LastToken, IdleSince: i.IdleSince,
	}
	return q
}

func viewOfPlaces(places []fairlock.Place) []placeView {
	views := make([]placeView, 0, len(places))
	for _, p := range places {
		v := placeView{Token: p.Token, Position: p.Position}
		if o := p.Owner; o != nil {
			v.Owner = &ownerView{
				Session: o.Session, Host: o.Host, PID: o.PID, Label: o.Label, Dead: o.Dead,
				AgeMs: o.Age.Milliseconds(), HeldMs: o.Held.Milliseconds(), LeaseLeftMs: o.LeaseLeft.Milliseconds(),
			}
		}
		views = append(views, v)
	}
	return views
}

// locks lists all locks.
func (s *Server) locks(w http.ResponseWriter, r *http.Request, who *Client) {
	p := bare(w, r)
	s.reading(w, r, who, p, func(ctx context.Context) (any, error) {
		all, err := s.m.List(ctx)
		if err != nil {
			return nil, err
		}
		views := make([]lockView, 0, len(all))
		for i := range all {
			views = append(views, viewOfSummary(&all[i]))
		}
		return map[string]any{"locks": views}, nil
	})
}

// queue shows one lock. Its name is in the query, where every name can stand: in a path, a.b and ../x would not.
func (s *Server) queue(w http.ResponseWriter, r *http.Request, who *Client) {
	q, p := query(r, "name")
	if p == nil && !q.Has("name") {
		p = badRequest("query parameter name is missing: must be the name of a lock")
	}
	if p == nil {
		p = noBody(w, r)
	}
	s.reading(w, r, who, p, func(ctx context.Context) (any, error) { return s.inspect(ctx, q.Get("name")) })
}

// inspect reads one lock. Between clients of one gateway a lock is passed on without a write, and the database shows it up to a second later: what
// this gateway knows of its own grants is newer.
func (s *Server) inspect(ctx context.Context, name string) (*queueView, error) {
	info, err := s.m.Inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	q := viewOfInfo(info)
	s.mu.Lock()
	defer s.mu.Unlock()
	over := func(p placeView) bool {
		holds, known := s.grants[grant{name, p.Token}]
		return known && !holds
	}
	q.Holders, q.Waiters = slices.DeleteFunc(q.Holders, over), slices.DeleteFunc(q.Waiters, over)
	// The first of those who wait: whoever of them holds has nobody before him who does not.
	for len(q.Waiters) > 0 && s.grants[grant{name, q.Waiters[0].Token}] {
		p := q.Waiters[0]
		p.Position = 0
		q.Holders, q.Waiters = append(q.Holders, p), q.Waiters[1:]
	}
	for i := range q.Waiters {
		q.Waiters[i].Position = i + 1
	}
	q.Held, q.Waiting = int64(len(q.Holders)), int64(len(q.Waiters))+q.More
	return q, nil
}
