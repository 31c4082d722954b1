package gateway

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// mostReads bounds the requests for queues that are being served at one time: each has the whole list in memory until its client has taken it.
const mostReads = 32

// mostReadsEach bounds those of one client of several: it may be one that takes no answer, which keeps a turn until the write's limit.
const mostReadsEach = mostReads / 4

// readLimit bounds the wait for a turn to read queues, and then the reading.
const readLimit = 10 * time.Second

// reading answers a request with what f reads of queues, when it is its turn. p is why it is refused before.
func (s *Server) reading(w http.ResponseWriter, r *http.Request, who *Client, p *problem, f func(context.Context) (any, error)) {
	end := func() {}
	if p == nil {
		end, p = s.reads.take(r.Context(), who.Name)
	}
	if p != nil {
		p.write(w)
		return
	}
	defer end()
	ctx, cancel := context.WithTimeout(r.Context(), readLimit)
	defer cancel()
	view, err := f(ctx)
	if err != nil {
		ofError(err).write(w)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", view)
}

// turns are those to read queues.
type turns struct {
	all  chan struct{} // has one for each that is taken
	each int           // that one client may have

	mu sync.Mutex // guards of, and users of each
	of map[string]*share
}

// share is a client's part of them.
type share struct {
	taken chan struct{} // has one for each
	users int           // requests that have one, or wait for one; a share without is forgotten
}

func newTurns(all, each int) *turns {
	return &turns{all: make(chan struct{}, all), each: each, of: map[string]*share{}}
}

// take waits for a turn, which ends by end. A client waits for its own share first: as long as it does, it takes nothing from others.
func (t *turns) take(ctx context.Context, client string) (end func(), p *problem) {
	limit := time.NewTimer(readLimit)
	defer limit.Stop()
	wait := func(turn chan struct{}) bool {
		select {
		case turn <- struct{}{}:
			return true
		case <-limit.C:
		case <-ctx.Done():
		}
		return false
	}
	p = refusal(http.StatusServiceUnavailable, "full", "the gateway shows queues to as many as it may at one time")
	own := t.share(client)
	switch {
	case !wait(own.taken):
		t.leave(client)
		if t.each < cap(t.all) {
			p = refusal(http.StatusTooManyRequests, "too-many-reads", fmt.Sprintf("the client reads queues %d times at one time: must not do so more often", t.each))
		}
	case !wait(t.all):
		<-own.taken
		t.leave(client)
	default:
		return func() {
			<-t.all
			<-own.taken
			t.leave(client)
		}, nil
	}
	p.retry = time.Second
	return nil, p
}

// share is the client's, used until leave.
func (t *turns) share(client string) *share {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.of[client]
	if own == nil {
		own = &share{taken: make(chan struct{}, t.each)}
		t.of[client] = own
	}
	own.users++
	return own
}

func (t *turns) leave(client string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.of[client]
	if own.users--; own.users == 0 {
		delete(t.of, client)
	}
}
