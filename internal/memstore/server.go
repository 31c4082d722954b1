package memstore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
	"github.com/fairlock/fairlock/waiter"
)

// Server is the database. It is safe for concurrent use.
type Server struct {
	mu   sync.Mutex // guards all below, and the events of every tap; never held while a call blocks
	now  *state
	taps []*tap // in the order of their beginning
	bug  func(string)
}

// New returns an empty server whose clock is wall.
func New(wall func() time.Time) *Server {
	s := &Server{bug: func(what string) { panic("bug: " + what) }}
	s.now = &state{
		locks: map[string]*lock{}, tickets: map[queue.TicketID]queue.Ticket{}, sessions: map[string]reaper.Session{},
		forced: map[string][]reaper.Forced{},
		wall:   wall, emit: s.emit,
	}
	return s
}

// OnBug replaces the panic by which the server answers a call that breaks a rule of its contract. bug must not call the server.
func (s *Server) OnBug(bug func(what string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bug = bug
}

// OnWrite makes f be called with each lock document after each write on it, in the order of the writes. f must not call the server.
func (s *Server) OnWrite(f func(queue.View)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.written = f
}

// state is all documents at one moment.
type state struct {
	locks     map[string]*lock
	tickets   map[queue.TicketID]queue.Ticket
	sessions  map[string]reaper.Session
	forced    map[string][]reaper.Forced // by session
	wall      func() time.Time
	clusterMS int64 // highest time seen, in ms: does not go back when wall does
	emit      func(waiter.Event)
	written   func(queue.View) // may be nil
}

// snapshot returns a copy that nobody is told the changes of.
func (st *state) snapshot() *state {
	c := *st
	c.locks = make(map[string]*lock, len(st.locks))
	for name, l := range st.locks {
		was := *l // changed in place by the next write
		c.locks[name] = &was
	}
	c.tickets, c.sessions = maps.Clone(st.tickets), maps.Clone(st.sessions)
	c.forced = maps.Clone(st.forced)
	c.emit = func(waiter.Event) {}
	c.written = nil
	return &c
}

// time is the server's time as documents have it: whole milliseconds. The cluster's time goes along, and not back.
func (st *state) time() time.Time {
	now := st.wall().UTC().Truncate(time.Millisecond)
	st.clusterMS = max(st.clusterMS, now.UnixMilli())
	return now
}

// put stores a lock document that is new or was changed.
func (st *state) put(name string, l *lock) {
	st.locks[name] = l
	if st.written != nil {
		st.written(l.view(name, true))
	}
}

// ticketsIn returns the tickets that the filter lets through, in order of their ids.
func (st *state) ticketsIn(limit int, filter func(*queue.Ticket) bool) []queue.Ticket {
	var all []queue.Ticket
	for _, t := range st.tickets {
		if filter(&t) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b queue.Ticket) int { return compareIDs(a.ID, b.ID) })
	return all[:min(len(all), limit)]
}

func compareIDs(a, b queue.TicketID) int {
	return cmp.Or(cmp.Compare(a.Lock, b.Lock), cmp.Compare(a.Lo, b.Lo))
}

// namesIn returns the names of locks after the given one that the filter lets through, in order.
func (st *state) namesIn(after string, limit int, filter func(*lock) bool) []string {
	var names []string
	for name, l := range st.locks {
		if name > after && filter(l) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), limit)]
}

// Lock returns a lock document.
func (s *Server) Lock(name string) (queue.View, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.now.locks[name]
	if !ok {
		return queue.View{Name: name}, false
	}
	return l.view(name, true), true
}

// Tickets returns all tickets and tombstones, in order.
func (s *Server) Tickets() []queue.Ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.ticketsIn(len(s.now.tickets), func(*queue.Ticket) bool { return true })
}

// Session returns a session document.
func (s *Server) Session(id string) (reaper.Session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess, ok := s.now.sessions[id]
	return sess, ok
}

// Sessions returns all session documents, in order.
func (s *Server) Sessions() []reaper.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.now.sessions), func(a, b reaper.Session) int { return cmp.Compare(a.ID, b.ID) })
}

// Locks returns all lock documents, in order.
func (s *Server) Locks() []queue.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []queue.View
	for _, name := range s.now.namesIn("", len(s.now.locks), func(*lock) bool { return true }) {
		all = append(all, s.now.locks[name].view(name, true))
	}
	return all
}

// EndSession ends a session as a reaper would, whatever its lease says.
func (s *Server) EndSession(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.now.sessions[id]
	at := s.now.time()
	sess.ID, sess.Ended, sess.EndedAt = id, true, &at
	s.now.sessions[id] = sess
}

// DropLock deletes a lock document.
func (s *Server) DropLock(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.now.locks[name]; ok {
		delete(s.now.locks, name)
		s.emit(waiter.Event{Name: name, Deleted: true})
	}
}

// DropLocks deletes all lock documents with their collection, which ends streams and tells no deletions.
func (s *Server) DropLocks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.now.locks)
	for _, t := range s.taps {
		t.fail(ErrInvalidated)
	}
}

// DropTicket deletes a ticket or tombstone.
func (s *Server) DropTicket(id queue.TicketID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.now.tickets, id)
}

// DropSession deletes a session document.
func (s *Server) DropSession(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.now.sessions, id)
}

// Unrest says what is not as it should be when nobody holds or waits (I8): tickets, tombstones, sessions that are not ended, lock
// documents that are not idle.
func (s *Server) Unrest() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []string
	for id, t := range s.now.tickets {
		left = append(left, fmt.Sprintf("ticket %v to %d of session %q", id, t.Hi, t.Session))
	}
	for id, sess := range s.now.sessions {
		if !sess.Ended {
			left = append(left, fmt.Sprintf("session %q", id))
		}
	}
	for name, l := range s.now.locks {
		if l.Settled != l.Issued || len(l.Done) > 0 || l.idleSince == nil && !l.Managed {
			left = append(left, fmt.Sprintf("lock %q: %+v", name, l.Reference))
		}
	}
	slices.Sort(left)
	return left
}
