package gateway

import (
	"context"
	"net/http"
	"time"
)

// withLease calls f with the lease that a request is about.
func (s *Server) withLease(w http.ResponseWriter, r *http.Request, who *Client, f func(*lease)) {
	key := leaseKey{who.Name, r.PathValue("id")}
	p := checkID(key.id)
	if p == nil {
		p = bare(w, r)
	}
	var l *lease
	if p == nil {
		l, p = s.lease(key, nil)
	}
	if p != nil {
		p.write(w)
		return
	}
	f(l)
}

// acquire takes a place in line, or finds the one that an earlier request took, and waits for what becomes of it.
func (s *Server) acquire(w http.ResponseWriter, r *http.Request, who *Client) {
	l, poll, p := s.acquired(w, r, who)
	if p != nil {
		p.write(w)
		return
	}
	if accepts(r) {
		s.stream(w, r, l)
		return
	}
	s.poll(w, r, l, poll)
}

func (s *Server) acquired(w http.ResponseWriter, r *http.Request, who *Client) (*lease, time.Duration, *problem) {
	key := leaseKey{who.Name, r.PathValue("id")}
	if p := checkID(key.id); p != nil {
		return nil, 0, p
	}
	q, p := query(r, "waitMs")
	if p != nil {
		return nil, 0, p
	}
	poll, p := pollOf(q)
	if p != nil {
		return nil, 0, p
	}
	a, p := s.readAsk(w, r)
	if p != nil {
		return nil, 0, p
	}
	l, p := s.lease(key, &a)
	if p != nil {
		return nil, 0, p
	}
	if a.try {
		// It has no wait to cut short, and an answer that says "in line" is none to it.
		poll = confirmLimit
	}
	<-l.placed // soon: it is called without a wait for anything outside this process
	return l, poll, nil
}

// poll answers when the lease no longer waits, or when the time of the poll is over.
func (s *Server) poll(w http.ResponseWriter, r *http.Request, l *lease, d time.Duration) {
	s.polls.Add(1)
	l.attach()
	gone := s.await(r.Context(), l, d)
	l.detach(gone)
	s.polls.Add(-1)
	if gone {
		return // nobody to answer
	}
	switch v, state, _ := l.look(); state {
	case waiting:
		writeJSON(w, http.StatusAccepted, "application/json", v)
	case held:
		writeJSON(w, http.StatusOK, "application/json", v)
	default:
		l.over().write(w)
	}
}

// await returns when the lease no longer waits, when d has passed, or when the client is gone, which it reports.
func (s *Server) await(ctx context.Context, l *lease, d time.Duration) (gone bool) {
	limit := time.NewTimer(d)
	defer limit.Stop()
	for {
		_, state, changed := l.look()
		if state != waiting {
			return false
		}
		select {
		case <-changed:
		case <-limit.C:
			return false
		case <-ctx.Done():
			return true
		}
	}
}

// get shows a lease. It is not heard of by that.
func (s *Server) get(w http.ResponseWriter, r *http.Request, who *Client) {
	s.withLease(w, r, who, func(l *lease) {
		v, _, _ := l.look()
		writeJSON(w, http.StatusOK, "application/json", v)
	})
}

func (s *Server) heartbeat(w http.ResponseWriter, r *http.Request, who *Client) {
	s.withLease(w, r, who, func(l *lease) {
		l.heartbeat()
		v, state, _ := l.look()
		if state != waiting && state != held {
			l.over().write(w)
			return
		}
		writeJSON(w, http.StatusOK, "application/json", v)
	})
}

// confirmLimit bounds how long a release and a try wait for the database.
const confirmLimit = 10 * time.Second

// release ends a lease. The answer waits until a majority of the database has it.
func (s *Server) release(w http.ResponseWriter, r *http.Request, who *Client) {
	s.withLease(w, r, who, func(l *lease) {
		l.withdraw()
		ctx, cancel := context.WithTimeout(r.Context(), confirmLimit)
		defer cancel()
		for {
			v, state, changed := l.look()
			switch {
			case state == lost:
				l.stopped()
				l.over().write(w)
				return
			case state.final():
				writeJSON(w, http.StatusOK, "application/json", v)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				writeJSON(w, http.StatusAccepted, "application/json", v)
				return
			}
		}
	})
}

// health says whether the gateway takes leases, and whether it asks for tokens. It does so while the database is out of reach, too.
func (s *Server) health(w http.ResponseWriter, _ *http.Request, _ *Client) {
	if s.isClosed() {
		closing().write(w)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", map[string]any{"status": "ok", "tokens": !s.cfg.Anonymous})
}
