package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// route is one operation. The description has the same.
type route struct {
	method, path string
	serve        func(*Server, http.ResponseWriter, *http.Request, *Client)
	public       bool // no token is asked for: nothing about locks is in the answer
	writes       bool // not for clients that may only read
}

// routes are all that there are. {id} stands for one part of a path.
var routes = []route{
	{method: "PUT", path: "/v1/leases/{id}", serve: (*Server).acquire, writes: true},
	{method: "GET", path: "/v1/leases/{id}", serve: (*Server).get},
	{method: "DELETE", path: "/v1/leases/{id}", serve: (*Server).release, writes: true},
	{method: "POST", path: "/v1/leases/{id}/heartbeat", serve: (*Server).heartbeat, writes: true},
	{method: "GET", path: "/v1/leases/{id}/events", serve: (*Server).events, writes: true},
	{method: "GET", path: "/v1/locks", serve: (*Server).locks},
	{method: "GET", path: "/v1/queue", serve: (*Server).queue},
	{method: "GET", path: "/v1/watch", serve: (*Server).watch},
	{method: "GET", path: "/metrics", serve: (*Server).metrics},
	{method: "GET", path: "/readyz", serve: (*Server).ready, public: true},
	{method: "GET", path: "/healthz", serve: (*Server).health, public: true},
	{method: "GET", path: "/", serve: page("index.html"), public: true},
	{method: "GET", path: "/app.js", serve: page("app.js"), public: true},
	{method: "GET", path: "/style.css", serve: page("style.css"), public: true},
	{method: "GET", path: "/icon.svg", serve: page("icon.svg"), public: true},
	{method: "GET", path: "/openapi.yaml", serve: page("openapi.yaml"), public: true},
}

// find returns the route of a request, or the methods that its path has. Paths are matched as they were sent, part by part, with
// nothing cleaned or redirected.
func find(r *http.Request) (found *route, methods []string) {
	parts := strings.Split(r.URL.EscapedPath(), "/")
	for i := range routes {
		ro := &routes[i]
		want := strings.Split(ro.path, "/")
		id := ""
		if !slices.EqualFunc(want, parts, func(w, p string) bool {
			if w == "{id}" {
				id = p
				return true
			}
			return w == p
		}) {
			continue
		}
		if ro.method == r.Method || ro.public && r.Method == http.MethodHead {
			r.SetPathValue("id", id)
			return ro, nil
		}
		methods = append(methods, ro.method)
		if ro.public {
			methods = append(methods, http.MethodHead)
		}
	}
	return nil, methods
}

// ServeHTTP answers one request. Behind another server than that of [Server.Serve], a client that vanishes without a word is noticed as late as that one
// notices it; heartbeats work all the same.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = &counted{ResponseWriter: w, s: s}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	hurry(w, r)
	if p := s.serve(w, r); p != nil {
		p.write(w)
	}
}

// serve answers, or says what is wrong.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) *problem {
	if s.cfg.LocalOnly && !local(r.Host) {
		return refusal(http.StatusMisdirectedRequest, "misdirected", "Host is "+quoted(r.Host)+": must be localhost or an address")
	}
	if s.cross.Check(r) != nil {
		return refusal(http.StatusForbidden, "cross-origin", "the request comes from a page of another origin: must be from the gateway's own")
	}
	ro, methods := find(r)
	switch {
	case ro == nil && len(methods) > 0:
		p := refusal(http.StatusMethodNotAllowed, "method", "method is "+quoted(r.Method)+": must be "+strings.Join(methods, " or "))
		p.allow = strings.Join(methods, ", ")
		return p
	case ro == nil:
		return refusal(http.StatusNotFound, "not-found", "path "+quoted(r.URL.Path)+" is nothing of the gateway's")
	}
	client := nobody
	if !ro.public {
		var p *problem
		if client, p = s.authenticate(r); p != nil {
			return p
		}
		if ro.writes && client.ReadOnly {
			return refusal(http.StatusForbidden, "read-only", "client "+client.Name+" may only look at queues")
		}
	}
	ro.serve(s, w, r, client)
	return nil
}

// local reports whether a Host header leads to this machine without asking a name server.
func local(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	_, err = netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}
