package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/fairlock/fairlock"
)

// problem is an error as its client gets it (RFC 9457). Detail names value and rule.
type problem struct {
	Type   string     `json:"type"`
	Title  string     `json:"title"`
	Status int        `json:"status"`
	Detail string     `json:"detail"`
	Lease  *leaseView `json:"lease,omitempty"`

	retry time.Duration // when to come again; 0: not said
	allow string        // of 405
}

// typePrefix begins the types of problems. They are names and lead nowhere.
const typePrefix = "urn:fairlock:"

func refusal(status int, kind, detail string) *problem {
	return &problem{Type: typePrefix + kind, Title: http.StatusText(status), Status: status, Detail: detail}
}

func badRequest(detail string) *problem { return refusal(http.StatusBadRequest, "bad-request", detail) }

// closing tells a client to come again, when another gateway or the next process of this one will serve it.
func closing() *problem {
	p := refusal(http.StatusServiceUnavailable, "closing", "the gateway is shutting down")
	p.retry = time.Second
	return p
}

// ofError is the answer to an error of fairlock.
func ofError(err error) *problem {
	status, kind, retry := http.StatusBadGateway, "database", time.Duration(0)
	switch {
	case errors.Is(err, fairlock.ErrInvalidName), errors.Is(err, fairlock.ErrInvalidOption):
		status, kind = http.StatusBadRequest, "bad-request"
	case errors.Is(err, fairlock.ErrNotFound):
		status, kind = http.StatusNotFound, "not-found"
	case errors.Is(err, fairlock.ErrMismatch):
		status, kind = http.StatusConflict, "mismatch"
	case errors.Is(err, fairlock.ErrBusy):
		status, kind = http.StatusLocked, "busy"
	case errors.Is(err, fairlock.ErrWaitLimit):
		status, kind = http.StatusLocked, "wait-limit"
	case errors.Is(err, fairlock.ErrTooManyWaiters):
		status, kind, retry = http.StatusTooManyRequests, "too-many-waiters", time.Second
	case errors.Is(err, fairlock.ErrClosed):
		return closing()
	}
	p := refusal(status, kind, err.Error())
	p.retry = retry
	return p
}

// write is the whole answer.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.retry+time.Second-1)/time.Second)))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="fairlock"`)
	}
	writeJSON(w, p.Status, "application/problem+json", p)
}

func writeJSON(w http.ResponseWriter, status int, mime string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic("bug: " + err.Error()) // our own types
	}
	h := w.Header()
	h.Set("Content-Type", mime)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(text)+1))
	// net/http reads what is left of a body before it writes the first byte.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(bodyLimit + answerLimit)) // not every ResponseWriter can
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client is gone: its request's context says so too
}

// quoted is a value for a message: escaped, and cut so that bad input is not sent back at length.
func quoted(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
