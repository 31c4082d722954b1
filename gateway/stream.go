package gateway

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const eventStream = "text/event-stream"

// idlePing is how often something is written to a stream on which nothing happens, for proxies that end what is silent.
const idlePing = 15 * time.Second

// mostStreams bounds the event streams of one lease.
const mostStreams = 4

// sse writes events. Each write has a time limit: a client that does not read costs a connection for no longer. Before a pause the limit is
// lifted (rest): on HTTP/2 it ends the stream when it passes, whether or not something is being written.
type sse struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	limit time.Duration
	buf   bytes.Buffer
}

// newSSE begins the answer.
func newSSE(w http.ResponseWriter, limit time.Duration) *sse {
	h := w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx
	w.WriteHeader(http.StatusOK)
	return &sse{w: w, rc: http.NewResponseController(w), limit: limit}
}

// event writes one event. data is one line.
func (e *sse) event(name string, data []byte) error {
	e.buf.Reset()
	e.buf.WriteString("event: ")
	e.buf.WriteString(name)
	e.buf.WriteString("\ndata: ")
	e.buf.Write(data)
	e.buf.WriteString("\n\n")
	return e.flush()
}

// ping writes a comment.
func (e *sse) ping() error {
	e.buf.Reset()
	e.buf.WriteString(":\n\n")
	return e.flush()
}

func (e *sse) flush() error {
	_ = e.rc.SetWriteDeadline(time.Now().Add(e.limit)) // not every ResponseWriter can
	if _, err := e.w.Write(e.buf.Bytes()); err != nil {
		return err
	}
	return e.rc.Flush()
}

// rest lifts the time limit of the last write, which has succeeded, until the next.
func (e *sse) rest() { _ = e.rc.SetWriteDeadline(time.Time{}) }

// events is the event stream of a lease that there is already.
func (s *Server) events(w http.ResponseWriter, r *http.Request, who *Client) {
	s.withLease(w, r, who, func(l *lease) { s.stream(w, r, l) })
}

// stream writes an event at each change of the lease, the first at once, until it is over. While it is held the event comes
// again four times in a heartbeat time, with the time that is left.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, l *lease) {
	if p := l.beginStream(); p != nil {
		p.write(w)
		return
	}
	defer l.endStream()
	s.streams.Add(1)
	defer s.streams.Add(-1)
	keeps := !l.ask.heartbeatOnly
	if keeps {
		notice(r.Context(), l.ask.heartbeat/4)
		l.attach()
	} else {
		l.heartbeat()
	}
	broken := l.follow(newSSE(w, l.ask.heartbeat/4), r.Context().Done())
	if keeps {
		l.detach(broken)
	}
}

// follow writes events until the lease is over, or the client is gone, which it reports.
func (l *lease) follow(e *sse, gone <-chan struct{}) (broken bool) {
	ping := time.NewTimer(idlePing)
	defer ping.Stop()
	last := state(0)
	for {
		v, state, changed := l.look()
		var err error
		if state == waiting && state == last {
			err = e.ping()
		} else {
			err = e.event(eventOf(v, state), encode(v))
		}
		last = state
		switch {
		case err != nil:
			return true
		case state.final():
			if !l.ask.heartbeatOnly {
				l.stops() // as the guide has it: who holds by a stream reads it
			}
			return false
		case !l.s.admits(l.key.client):
			return true
		case state == held:
			ping.Reset(l.ask.heartbeat / 4)
		default:
			ping.Reset(idlePing)
		}
		e.rest()
		select {
		case <-changed:
		case <-ping.C:
		case <-gone:
			return true
		}
	}
}

// eventOf is the name of the event: the state, or closing.
func eventOf(v *leaseView, s state) string {
	if s.final() && v.Reason == isClosing {
		return "closing"
	}
	return v.State
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("bug: " + err.Error()) // our own types
	}
	return text
}

func (l *lease) beginStream() *problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams >= mostStreams {
		return refusal(http.StatusTooManyRequests, "too-many-streams", "the lease has 4 event streams: must have no more")
	}
	l.streams++
	return nil
}

func (l *lease) endStream() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams--
}

// watch is the stream of the status page: all queues, whenever they change.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, who *Client) {
	p := bare(w, r)
	var sub *watcher
	if p == nil {
		sub, p = s.feed.join(who.Name)
	}
	if p != nil {
		p.write(w)
		return
	}
	defer s.feed.leave(sub)
	e := newSSE(w, 10*time.Second)
	ping := time.NewTimer(idlePing)
	defer ping.Stop()
	for {
		var text []byte
		select {
		case text = <-sub.next:
		case <-ping.C:
		case <-s.ending:
			_ = e.event("closing", []byte("{}")) // the last one either way
			return
		case <-r.Context().Done():
			return
		}
		var err error
		switch {
		case !s.admits(who.Name):
			return
		case text != nil:
			err = e.event("locks", text)
		default:
			err = e.ping()
		}
		if err != nil {
			return
		}
		e.rest()
		ping.Reset(idlePing)
	}
}

// accepts reports whether a client wants an event stream: names it, with a weight that is not 0.
func accepts(r *http.Request) bool {
	for _, values := range r.Header.Values("Accept") {
		for v := range strings.SplitSeq(values, ",") {
			t, params, err := mime.ParseMediaType(v)
			if err != nil || t != eventStream {
				continue
			}
			if q, err := strconv.ParseFloat(params["q"], 64); err != nil || q > 0 {
				return true
			}
		}
	}
	return false
}
