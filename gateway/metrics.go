package gateway

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/tally"
)

// Metrics has the metrics of the gateway's manager, for /metrics: the same as those of metrics/prometheus, without a dependency. Lock names are in none.
//
//	metrics := gateway.NewMetrics()
//	m, err := fairlock.New(ctx, db, &fairlock.Config{Observer: metrics.Observer()})
//	...
//	s, err := gateway.New(m, &gateway.Config{Metrics: metrics})
type Metrics struct {
	tally  *tally.Metrics
	events []*series // of what the observer tells
}

// NewMetrics returns metrics of nothing yet.
func NewMetrics() *Metrics {
	m := &Metrics{}
	m.tally = tally.New("", func(e tally.Event) tally.Metric {
		s := &series{Event: e}
		m.events = append(m.events, s)
		return s.begin
	})
	return m
}

// Observer is what the manager's Config needs to be counted here.
func (m *Metrics) Observer() *fairlock.Observer { return m.tally.Observer() }

func (m *Metrics) writeTo(e *exposition) {
	sum := m.tally.Sum()
	e.counts(&sum)
	for _, s := range m.events {
		s.writeTo(e)
	}
}

// ending is how a lease ended.
type ending struct {
	state  state
	reason reason
}

// endings are all there are, in order.
func endings() (all []ending) {
	for _, r := range []reason{"", unsure} {
		all = append(all, ending{released, r})
	}
	for _, r := range []reason{notHeard, isClosing, lostLease, lostSession, lostTicket, lostSettled, lostMaxHold, lostForced} {
		all = append(all, ending{lost, r})
	}
	for _, r := range []reason{withdrawn, isBusy, waitLimit, notHeard, isClosing, mismatched, tooMany, refused, database} {
		all = append(all, ending{left, r})
	}
	return all
}

// metrics writes what the gateway itself has, and Config.Metrics.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request, _ *Client) {
	p := bare(w, r)
	if p != nil {
		p.write(w)
		return
	}
	var e exposition
	s.gauges(&e)
	if s.cfg.Metrics != nil {
		s.cfg.Metrics.writeTo(&e)
	}
	h := w.Header()
	h.Set("Content-Type", expositionType)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(e.Len()))
	_, _ = e.WriteTo(w) // the client is gone
}

func (s *Server) gauges(e *exposition) {
	e.family("fairlock_gateway_leases", "gauge", "Leases that are not over.")
	for _, n := range []struct {
		state state
		n     int64
	}{{held, s.holds.Load()}, {waiting, s.waits.Load()}} {
		e.sample("fairlock_gateway_leases", strconv.FormatInt(n.n, 10), "state", n.state.String())
	}
	s.mu.Lock()
	clients, over := int64(len(s.liveOf)), maps.Clone(s.over)
	s.mu.Unlock()
	e.gauge("fairlock_gateway_clients", "Clients that have such a lease; without tokens all are one.", clients)
	e.gauge("fairlock_gateway_streams", "Event streams of leases.", s.streams.Load())
	e.gauge("fairlock_gateway_polls", "Requests that wait for a lock.", s.polls.Load())
	e.gauge("fairlock_gateway_watchers", "Streams of the status page.", s.feed.watching())
	e.gauge("fairlock_gateway_connections", "Connections that are open.", s.conns.Load())
	e.family("fairlock_gateway_connections_refused_total", "counter", "Connections that were closed at once, as their address had as many as it may.")
	e.sample("fairlock_gateway_connections_refused_total", strconv.FormatInt(s.from.refused.Load(), 10))
	e.family("fairlock_gateway_leases_over_total", "counter", "Leases that are over, by the state in which they ended and why.")
	for _, end := range endings() {
		e.sample("fairlock_gateway_leases_over_total", strconv.FormatInt(over[end], 10), "reason", string(end.reason), "state", end.state.String())
	}
	e.family("fairlock_gateway_requests_total", "counter", "Requests that were answered, by status; streams when they begin.")
	for status := range s.answered {
		if n := s.answered[status].Load(); n > 0 || slices.Contains(alwaysShown, status) {
			e.sample("fairlock_gateway_requests_total", strconv.FormatInt(n, 10), "code", strconv.Itoa(status))
		}
	}
}

// alwaysShown are the statuses that have a series from the beginning.
var alwaysShown = []int{200, 202, 400, 401, 410, 503}

// counted is an answer whose status is counted.
type counted struct {
	http.ResponseWriter
	s       *Server
	counted bool
}

func (c *counted) WriteHeader(status int) {
	if !c.counted && status >= 200 && status < len(c.s.answered) {
		c.counted = true
		c.s.answered[status].Add(1)
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *counted) Write(p []byte) (int, error) {
	if !c.counted {
		c.WriteHeader(http.StatusOK)
	}
	return c.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }
