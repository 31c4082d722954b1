package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/fairlock/fairlock"
)

const (
	probeEvery = time.Second     // at most so often is the database asked, whoever asks the gateway
	probeLimit = 2 * time.Second // for its answer
	// probeName is the lock that is read. It need not be there.
	probeName = "fairlock/readyz"
)

// probe knows whether the database can be read. One call of it serves all who ask meanwhile.
type probe struct {
	mu      sync.Mutex // guards all below
	running chan struct{}
	at      time.Time // of the end of the last call
	err     error
}

// ask returns the outcome of a call that is not older than probeEvery, or ctx's error.
func (p *probe) ask(ctx context.Context, s *Server) error {
	for {
		p.mu.Lock()
		running := p.running
		if running == nil && !p.at.IsZero() && time.Since(p.at) < probeEvery {
			defer p.mu.Unlock()
			return p.err
		}
		if running == nil {
			p.running = make(chan struct{})
		}
		p.mu.Unlock()
		if running == nil {
			p.call(s)
			continue
		}
		select {
		case <-running:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// call is made by one at a time. It is not under its caller's context, since others wait for it.
func (p *probe) call(s *Server) {
	ctx, cancel := context.WithTimeout(s.base, probeLimit)
	defer cancel()
	_, err := s.m.Inspect(ctx, probeName)
	if errors.Is(err, fairlock.ErrNotFound) {
		err = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.err == nil {
		s.cfg.Logger.Warn("fairlock: gateway: not ready: the database cannot be read", "error", err)
	}
	p.err, p.at = err, time.Now()
	close(p.running)
	p.running = nil
}

// ready says whether the gateway can take locks for its clients now: it is not shutting down, and the database can be read. What the
// database says is for the log: whoever asks here has no token.
func (s *Server) ready(w http.ResponseWriter, r *http.Request, _ *Client) {
	if s.isClosed() {
		closing().write(w)
		return
	}
	if s.probe.ask(r.Context(), s) != nil {
		p := refusal(http.StatusServiceUnavailable, "not-ready", "the database cannot be read")
		p.retry = probeEvery
		p.write(w)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", map[string]any{"status": "ok"})
}
