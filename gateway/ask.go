package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock"
)

// Kinds of locks, as requests name them. read and write are the two ways to take one lock.
const (
	mutex     = "mutex"
	semaphore = "semaphore"
	read      = "read"
	write     = "write"
)

const (
	maxBody    = 16 << 10
	maxLabel   = 128
	maxPermits = 10_000
	maxPoll    = time.Minute
	maxTime    = 30 * 24 * time.Hour // of maxWaitMs and maxHoldMs
	bodyLimit  = 10 * time.Second    // for a body to arrive
	// answerLimit is for an answer to be taken by its client.
	answerLimit = 10 * time.Second
)

// ask is what a lease asks for. Asks are compared with ==: a repeated request must ask for the same.
type ask struct {
	name, kind, label  string
	permits, units     int64
	try, heartbeatOnly bool
	heartbeat          time.Duration
	maxWait, maxHold   time.Duration // 0: no limit
}

func (a *ask) options() (opts []fairlock.Option) {
	if a.maxWait > 0 {
		opts = append(opts, fairlock.MaxWait(a.maxWait))
	}
	if a.maxHold > 0 {
		opts = append(opts, fairlock.MaxHold(a.maxHold))
	}
	return opts
}

var leaseID = regexp.MustCompile(`^[A-Za-z0-9_-]{8,64}$`)

func checkID(id string) *problem {
	if !leaseID.MatchString(id) {
		return badRequest("lease id is " + quoted(id) + ": must be 8 to 64 letters, digits, - and _")
	}
	return nil
}

// readAsk reads the body of an acquisition.
func (s *Server) readAsk(w http.ResponseWriter, r *http.Request) (ask, *problem) {
	a := ask{kind: mutex, heartbeat: s.cfg.Heartbeat}
	if t, params, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" ||
		params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return a, refusal(http.StatusUnsupportedMediaType, "media-type",
			"Content-Type is "+quoted(r.Header.Get("Content-Type"))+": must be application/json in UTF-8")
	}
	text, p := readBody(w, r)
	if p != nil {
		return a, p
	}
	if !utf8.Valid(text) {
		return a, badRequest("the body is not UTF-8: must be a JSON object")
	}
	given := map[string]bool{}
	if err := a.fields(text, given); err != nil {
		return a, badRequest(err.Error())
	}
	if err := a.check(given); err != nil {
		return a, badRequest(err.Error())
	}
	return a, nil
}

// hurry gives a body its time to arrive. It counts for what is left of it when the answer has been given, too: net/http reads that. Once a
// body has arrived, readBody and noBody lift it: from there on a read only serves to see that the client is gone, and that must not
// seem so because time has passed.
func hurry(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyLimit)) // not every ResponseWriter can
	}
}

func arrived(w http.ResponseWriter) { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }

// readBody reads no more than maxBody.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	if c, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		w = c.Unwrap() // net/http's own, which ends the connection when the body is too large
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, refusal(http.StatusRequestEntityTooLarge, "too-large", fmt.Sprintf("the body is larger than %d bytes", maxBody))
	case err != nil:
		return nil, badRequest("the body did not arrive in full within " + bodyLimit.String())
	}
	arrived(w)
	return text, nil
}

// noBody refuses requests with a body where there must be none.
func noBody(w http.ResponseWriter, r *http.Request) *problem {
	if r.ContentLength == 0 {
		return nil
	}
	// Unknown is a body that may be empty. One byte tells.
	if n, err := io.ReadFull(r.Body, make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return badRequest("the request has a body: must have none")
	}
	arrived(w)
	return nil
}

// fields reads a flat JSON object, by hand: encoding/json knows names in any case, and takes the last of two values.
func (a *ask) fields(text []byte, given map[string]bool) error {
	millis := func(d *time.Duration) func(json.RawMessage) error {
		return func(raw json.RawMessage) error {
			var n int64
			if err := json.Unmarshal(raw, &n); err != nil || n > math.MaxInt64/int64(time.Millisecond) || n < math.MinInt64/int64(time.Millisecond) {
				return errors.New("must be a whole number of milliseconds")
			}
			*d = time.Duration(n) * time.Millisecond
			return nil
		}
	}
	set := map[string]func(json.RawMessage) error{
		"name":        into(&a.name, "must be a string"),
		"kind":        into(&a.kind, "must be a string"),
		"label":       into(&a.label, "must be a string"),
		"permits":     into(&a.permits, "must be a whole number"),
		"units":       into(&a.units, "must be a whole number"),
		"try":         into(&a.try, "must be true or false"),
		"heartbeatMs": millis(&a.heartbeat),
		"maxWaitMs":   millis(&a.maxWait),
		"maxHoldMs":   millis(&a.maxHold),
		"renew": func(raw json.RawMessage) error {
			by := ""
			if json.Unmarshal(raw, &by) != nil || by != "connection" && by != "heartbeat" {
				return errors.New("must be connection or heartbeat")
			}
			a.heartbeatOnly = by == "heartbeat"
			return nil
		},
	}
	in := json.NewDecoder(bytes.NewReader(text))
	if t, err := in.Token(); err != nil || t != json.Delim('{') {
		return errors.New("the body must be a JSON object")
	}
	for in.More() {
		key, err := in.Token()
		name, _ := key.(string)
		if err != nil {
			return errors.New("the body must be a JSON object: " + err.Error())
		}
		var raw json.RawMessage
		if err := in.Decode(&raw); err != nil {
			return errors.New("the body must be a JSON object: " + err.Error())
		}
		field, known := set[name]
		switch {
		case !known:
			return fmt.Errorf("field %s is unknown", quoted(name))
		case given[name]:
			return fmt.Errorf("field %s comes twice", quoted(name))
		}
		given[name] = true
		if err := field(raw); err != nil || string(raw) == "null" {
			if err == nil {
				err = errors.New("must not be null")
			}
			return fmt.Errorf("%s is %s: %w", name, quoted(string(raw)), err)
		}
	}
	if _, err := in.Token(); err != nil {
		return errors.New("the body must be a JSON object: " + err.Error())
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body must be one JSON object, and has more behind it")
	}
	return nil
}

func into[T any](v *T, rule string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if json.Unmarshal(raw, v) != nil {
			return errors.New(rule)
		}
		return nil
	}
}

// check judges the values. given are the fields that the body has.
func (a *ask) check(given map[string]bool) error {
	if !given["name"] {
		return errors.New("name is missing: must be the name of a lock")
	}
	if err := fairlock.ValidateName(a.name); err != nil {
		return err
	}
	// encoding/json puts it in place of half a surrogate pair: names that are not the same would be one lock.
	if strings.ContainsRune(a.name, utf8.RuneError) {
		return fmt.Errorf("name is %s: must not have U+FFFD, which stands for what is no character", quoted(a.name))
	}
	switch a.kind {
	case mutex, read, write:
		if given["permits"] || given["units"] {
			return fmt.Errorf("permits and units are only for kind semaphore: kind is %s", a.kind)
		}
	case semaphore:
		if !given["units"] {
			a.units = 1
		}
		switch {
		case a.permits < 1 || a.permits > maxPermits:
			return fmt.Errorf("permits is %d: must be from 1 to %d", a.permits, maxPermits)
		case a.units < 1 || a.units > a.permits:
			return fmt.Errorf("units is %d: must be from 1 to the permits %d", a.units, a.permits)
		}
	default:
		return fmt.Errorf("kind is %s: must be mutex, semaphore, read or write", quoted(a.kind))
	}
	limit := func(name string, d time.Duration) error {
		if given[name] && (d < time.Millisecond || d > maxTime) {
			return fmt.Errorf("%s is %d: must be from 1 to %d", name, d.Milliseconds(), maxTime.Milliseconds())
		}
		return nil
	}
	switch {
	case len(a.label) > maxLabel:
		return fmt.Errorf("label has %d bytes: must have at most %d", len(a.label), maxLabel)
	case a.heartbeat < minHeartbeat || a.heartbeat > maxHeartbeat:
		return fmt.Errorf("heartbeatMs is %d: must be from %d to %d", a.heartbeat.Milliseconds(), minHeartbeat.Milliseconds(), maxHeartbeat.Milliseconds())
	case a.try && given["maxWaitMs"]:
		return errors.New("try and maxWaitMs exclude each other: try does not wait")
	}
	return errors.Join(limit("maxWaitMs", a.maxWait), limit("maxHoldMs", a.maxHold))
}

// query reads the query, in which there may be the given names only, each once.
func query(r *http.Request, names ...string) (url.Values, *problem) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("the query is malformed: " + err.Error())
	}
	for name, values := range q {
		known := false
		for _, n := range names {
			known = known || n == name
		}
		switch {
		case !known:
			return nil, badRequest("query parameter " + quoted(name) + " is unknown")
		case len(values) > 1:
			return nil, badRequest("query parameter " + quoted(name) + " comes " + strconv.Itoa(len(values)) + " times: must come once")
		}
	}
	return q, nil
}

// bare refuses requests with a query or a body where there must be neither.
func bare(w http.ResponseWriter, r *http.Request) *problem {
	if _, p := query(r); p != nil {
		return p
	}
	return noBody(w, r)
}

// pollOf is how long a request may wait for its answer.
func pollOf(q url.Values) (time.Duration, *problem) {
	if !q.Has("waitMs") {
		return maxPoll / 2, nil
	}
	n, err := strconv.ParseInt(q.Get("waitMs"), 10, 64)
	if err != nil || n < 0 || n > maxPoll.Milliseconds() {
		return 0, badRequest(fmt.Sprintf("waitMs is %s: must be a whole number from 0 to %d", quoted(q.Get("waitMs")), maxPoll.Milliseconds()))
	}
	return time.Duration(n) * time.Millisecond, nil
}
