package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock"
)

// Server is a gateway. It is safe for concurrent use.
type Server struct {
	cfg     Config
	m       *fairlock.Manager
	keys    atomic.Pointer[keyring]
	cross   *http.CrossOriginProtection
	feed    *feed
	http    *http.Server
	from    *addresses
	began   time.Time
	base    context.Context // parent of all that leases do; ends at the end of Close
	baseEnd context.CancelFunc
	leases  sync.WaitGroup // goroutines of leases
	ending  chan struct{}  // closed when Close begins

	probe probe
	reads *turns // of requests that read queues

	waits, holds          atomic.Int64      // leases in the states; releasing is a hold
	streams, polls, conns atomic.Int64      // that are open
	answered              [600]atomic.Int64 // requests by status

	mu     sync.Mutex // guards all below; taken after lease.mu
	all    map[leaseKey]*lease
	live   int              // of them not over
	liveOf map[string]int   // live by client; without those that have none
	over   map[ending]int64 // how many ended so, since the beginning
	grants map[grant]bool   // of leases in all that were granted: whether they hold now
	past   *past            // of them over
	closed bool
}

// grant is a place that was admitted.
type grant struct {
	name  string
	token int64
}

// New returns a gateway to the manager's locks. The manager stays the caller's, who closes it after the gateway.
func New(m *fairlock.Manager, cfg *Config) (*Server, error) {
	full, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	readsEach := mostReadsEach
	if full.Anonymous { // all are one client
		readsEach = mostReads
	}
	s := &Server{
		cfg: full, m: m, cross: http.NewCrossOriginProtection(), began: time.Now(),
		ending: make(chan struct{}), all: map[leaseKey]*lease{}, grants: map[grant]bool{},
		liveOf: map[string]int{}, over: map[ending]int64{}, reads: newTurns(mostReads, readsEach),
	}
	s.base, s.baseEnd = context.WithCancel(context.Background())
	s.keys.Store(newKeyring(full.Clients))
	s.feed = newFeed(s)
	s.past = newPast(full.MaxLeases)
	s.from = newAddresses(full.MaxConnsEach)
	s.http = &http.Server{
		Handler: s, TLSConfig: full.TLS, ConnContext: withPeer,
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		WriteTimeout: maxPoll + answerLimit, // from the end of the header on; streams have limits of their own
		HTTP2: &http.HTTP2Config{
			// The limit of a stream's write does not reach a connection that takes nothing at all.
			WriteByteTimeout: answerLimit,
			// The defaults are a megabyte each; a body has maxBody at the most.
			MaxReceiveBufferPerConnection: 128 << 10, MaxReceiveBufferPerStream: 32 << 10,
		},
		ErrorLog: quietLog(full.Logger),
	}
	return s, nil
}

// Serve answers what comes on the listener, until Close. It closes the listener. It returns nil after Close.
func (s *Server) Serve(ln net.Listener) error {
	ln = limitConns(ln, s.cfg.MaxConns, &s.conns, s.from)
	var err error
	if s.cfg.TLS != nil {
		err = s.http.ServeTLS(ln, "", "")
	} else {
		err = s.http.Serve(ln)
	}
	if err == http.ErrServerClosed {
		return nil
	}
	return err
}

// lease finds the lease of an id, or makes it when ask is not nil. A lease that is made anew has its goroutine.
func (s *Server) lease(key leaseKey, a *ask) (*lease, *problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(time.Now())
	if l := s.all[key]; l != nil {
		if a != nil && l.ask != *a {
			return nil, refusal(http.StatusConflict, "conflict", "lease id "+quoted(key.id)+" is another request's: an id is for one acquisition, and its repetitions say the same")
		}
		return l, nil
	}
	switch {
	case a == nil:
		return nil, refusal(http.StatusNotFound, "not-found", "there is no lease "+quoted(key.id)+" of yours, or it has been over for a minute")
	case s.closed:
		return nil, closing()
	case s.live >= s.cfg.MaxLeases:
		p := refusal(http.StatusServiceUnavailable, "full", "the gateway has as many leases as it may")
		p.retry = time.Second
		return nil, p
	case s.cfg.MaxLeasesEach > 0 && s.liveOf[key.client] >= s.cfg.MaxLeasesEach:
		p := refusal(http.StatusTooManyRequests, "too-many-leases", fmt.Sprintf("the client has %d leases: must have no more", s.cfg.MaxLeasesEach))
		p.retry = time.Second
		return nil, p
	}
	l := newLease(s, key, *a)
	s.all[key] = l
	s.live++
	s.liveOf[key.client]++
	s.waits.Add(1)
	s.leases.Go(l.run)
	return l, nil
}

// note notes whether a granted lease holds.
func (s *Server) note(name string, token int64, holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants[grant{name, token}] = holds
}

// retire keeps a lease that is over for a while. It is called once for each, by moveLocked, after note.
func (s *Server) retire(l *lease, end ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.live--
	less(s.liveOf, l.key.client)
	s.over[end]++
	s.forgetLocked(now)
	if one := s.past.add(l, now); one != nil {
		s.dropLocked(one)
	}
}

// forgetLocked drops leases that have been over for long. The caller holds mu.
func (s *Server) forgetLocked(now time.Time) {
	for l := s.past.old(now); l != nil; l = s.past.old(now) {
		s.dropLocked(l)
	}
}

// dropLocked forgets a lease that is over. The caller holds mu.
func (s *Server) dropLocked(l *lease) {
	delete(s.all, l.key)
	delete(s.grants, grant{l.ask.name, l.token}) // of one that was never granted: nothing
}

// less takes one from a count, and forgets a count of none.
func less[K comparable](counts map[K]int, of K) {
	if counts[of]--; counts[of] == 0 {
		delete(counts, of)
	}
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// shut refuses what is new from now on, and returns the leases that are not over.
func (s *Server) shut() (live []*lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.ending)
	}
	for _, l := range s.all {
		live = append(live, l)
	}
	return live
}

// Close tells every client, hands every lock on, and ends Serve. A client that holds by a stream is told at once, and its lock handed on then; one that holds by
// heartbeats is told when it sends the next, and its lock handed on when it says that it has stopped, or when the time that it was promised is over: at most
// its heartbeat time, and the manager's TTL.
// Close returns when all is done, or with ctx's error when that ends first; what is left then is given back all the same, and the promises with it. It
// may be repeated.
func (s *Server) Close(ctx context.Context) error {
	live := s.shut()
	// Those who wait first: they shall not get what those who hold leave.
	for _, of := range []state{waiting, held} {
		for _, l := range live {
			l.endFrom(of, isClosing)
		}
	}
	s.feed.close()
	done := make(chan struct{})
	go func() {
		s.leases.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.baseEnd()
	<-done
	// Answers that say that it is over are under way, no others.
	last, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if s.http.Shutdown(last) != nil {
		_ = s.http.Close()
	}
	return err
}
