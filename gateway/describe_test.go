package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// described is openapi.yaml.
var described = sync.OnceValue(func() map[string]any {
	text, err := files.ReadFile("openapi.yaml")
	if err != nil {
		panic(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		panic(err)
	}
	return doc
})

// deref follows a $ref.
func deref(v any) map[string]any {
	m, _ := v.(map[string]any)
	ref, ok := m["$ref"].(string)
	if !ok {
		return m
	}
	var at any = described()
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = at.(map[string]any)[part]
	}
	if at == nil {
		panic("nothing at " + ref)
	}
	return deref(at)
}

// operation finds the described operation of a request.
func operation(method, path string) (op map[string]any, key string) {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	if len(parts) > 3 && parts[2] == "leases" {
		parts[3] = "{id}"
	}
	key = strings.ToUpper(method) + " " + strings.Join(parts, "/")
	item := deref(described()["paths"].(map[string]any)[strings.Join(parts, "/")])
	op, _ = item[strings.ToLower(method)].(map[string]any)
	return op, key
}

// seen are the answers that tests have had, as "METHOD path status".
var seen sync.Map

// describe requires that an answer's status and type are in the description. Of operations that are not in it only 404 and 405 may come.
func describe(t *testing.T, req *http.Request, resp *http.Response) {
	t.Helper()
	if req.Method == http.MethodHead {
		return
	}
	op, key := operation(req.Method, req.URL.EscapedPath())
	if op == nil {
		if resp.StatusCode != 421 && resp.StatusCode != 403 {
			require.Contains(t, []int{404, 405}, resp.StatusCode, key)
		}
		return
	}
	status := strconv.Itoa(resp.StatusCode)
	answers := op["responses"].(map[string]any)
	require.Contains(t, answers, status, "%s answers what is not described", key)
	content, _ := deref(answers[status])["content"].(map[string]any)
	mime, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	require.Contains(t, content, mime, "%s %s", key, status)
	seen.Store(key+" "+status, true)
}

// describeBody requires that a JSON body is as described.
func describeBody(t *testing.T, method, path string, resp *http.Response, text []byte) {
	t.Helper()
	op, key := operation(method, path)
	mime, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if op == nil || !strings.HasSuffix(mime, "json") {
		return
	}
	answer := deref(op["responses"].(map[string]any)[strconv.Itoa(resp.StatusCode)])
	schema := answer["content"].(map[string]any)[mime].(map[string]any)["schema"]
	var v any
	require.NoError(t, json.Unmarshal(text, &v))
	require.NoError(t, conforms(schema, v), "%s: %s", key, text)
}

// conforms is as much of JSON Schema as the description uses, which TestSchemaWords sees to.
func conforms(schema, v any) error {
	s := deref(schema)
	if all, ok := s["allOf"].([]any); ok {
		for _, part := range all {
			if err := conforms(part, v); err != nil {
				return err
			}
		}
	}
	if s["unevaluatedProperties"] == false {
		for name := range v.(map[string]any) {
			if !slices.Contains(propertiesOf(s), name) {
				return fmt.Errorf("%s is not described", name)
			}
		}
	}
	if want, ok := s["const"]; ok && v != want {
		return fmt.Errorf("%v is not %v", v, want)
	}
	for word, broken := range map[string]func(v, bound float64) bool{
		"minimum": func(v, bound float64) bool { return v < bound }, "maximum": func(v, bound float64) bool { return v > bound },
	} {
		n, number := v.(float64)
		if bound, ok := s[word].(int); ok && number && broken(n, float64(bound)) {
			return fmt.Errorf("%v breaks %s %d", v, word, bound)
		}
	}
	if text, ok := v.(string); ok {
		if least, ok := s["minLength"].(int); ok && len(text) < least {
			return fmt.Errorf("%q is too short", v)
		}
		if most, ok := s["maxLength"].(int); ok && len(text) > most {
			return fmt.Errorf("%q is too long", v)
		}
		if s["format"] == "date-time" {
			if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
				return err
			}
		}
	}
	if of, ok := s["enum"].([]any); ok && !slices.Contains(of, v) {
		return fmt.Errorf("%v is none of %v", v, of)
	}
	switch s["type"] {
	case "string":
		if _, ok := v.(string); !ok {
			return fmt.Errorf("%v is no string", v)
		}
	case "integer":
		if n, ok := v.(float64); !ok || n != float64(int64(n)) {
			return fmt.Errorf("%v is no integer", v)
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			return fmt.Errorf("%v is no boolean", v)
		}
	case "array":
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("%v is no array", v)
		}
		for _, item := range list {
			if err := conforms(s["items"], item); err != nil {
				return err
			}
		}
	case "object":
		m, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("%v is no object", v)
		}
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, ok := m[name.(string)]; !ok {
				return fmt.Errorf("%s is missing", name)
			}
		}
		properties, _ := s["properties"].(map[string]any)
		for name, item := range m {
			of, known := properties[name]
			if !known && s["additionalProperties"] == false {
				return fmt.Errorf("%s is not described", name)
			}
			if known {
				if err := conforms(of, item); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	return nil
}

// propertiesOf are the names that an object's schema has, with those of its parts.
func propertiesOf(s map[string]any) (names []string) {
	properties, _ := s["properties"].(map[string]any)
	names = slices.Collect(maps.Keys(properties))
	all, _ := s["allOf"].([]any)
	for _, part := range all {
		names = append(names, propertiesOf(deref(part))...)
	}
	return names
}

// schemaNamed is one of components/schemas.
func schemaNamed(name string) any {
	return described()["components"].(map[string]any)["schemas"].(map[string]any)[name]
}

// describeEvent requires that the data of an event is as described.
func describeEvent(t *testing.T, name string, data []byte) {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal(data, &v))
	schema := schemaNamed("Lease")
	switch {
	case name == "locks":
		schema = schemaNamed("Snapshot")
	case name == "closing" && string(data) == "{}":
		return // of watch
	}
	require.NoError(t, conforms(schema, v), "%s: %s", name, data)
}

// TestSchemaWords: the description uses no word that conforms would pass over.
func TestSchemaWords(t *testing.T) {
	t.Parallel()
	known := []string{
		"$ref", "additionalProperties", "allOf", "const", "default", "description", "enum", "format", "items", "maxLength", "maximum", "minLength",
		"minimum", "properties", "required", "type", "unevaluatedProperties",
	}
	var walk func(path string, schema any)
	walk = func(path string, schema any) {
		s := schema.(map[string]any)
		for word, of := range s {
			require.Contains(t, known, word, path)
			switch word {
			case "properties":
				for name, p := range of.(map[string]any) {
					walk(path+"."+name, p)
				}
			case "items":
				walk(path+"[]", of)
			case "allOf":
				for _, p := range of.([]any) {
					walk(path, p)
				}
			}
		}
		// An object without a bound on its properties would let everything pass.
		_, bare := s["properties"]
		if bare && path != "LockFields" {
			require.True(t, s["additionalProperties"] == false || s["unevaluatedProperties"] == false, path)
		}
	}
	for name, s := range described()["components"].(map[string]any)["schemas"].(map[string]any) {
		walk(name, s)
	}
}

// TestAskIsDescribed: the description of what PUT takes is what it takes: the same fields, and bodies that break it are refused.
func TestAskIsDescribed(t *testing.T) {
	t.Parallel()
	full := map[string]any{
		"name": "x", "kind": "semaphore", "permits": 3.0, "units": 2.0, "label": "l", "try": true, "heartbeatMs": 3000.0, "renew": "heartbeat",
		"maxHoldMs": 1.0, "maxWaitMs": 1.0,
	}
	require.ElementsMatch(t, propertiesOf(deref(schemaNamed("Ask"))), slices.Collect(maps.Keys(full)))
	judge := func(body map[string]any) (server, description error) {
		text, err := json.Marshal(body)
		require.NoError(t, err)
		a, given := ask{kind: mutex, heartbeat: minHeartbeat}, map[string]bool{}
		if server = a.fields(text, given); server == nil {
			server = a.check(given)
		}
		return server, conforms(schemaNamed("Ask"), body)
	}
	// try excludes maxWaitMs, which JSON Schema could only say at length.
	for _, without := range []string{"try", "maxWaitMs"} {
		body := maps.Clone(full)
		delete(body, without)
		server, description := judge(body)
		require.NoError(t, server)
		require.NoError(t, description)
		for name, values := range map[string][]any{
			"name": {"", 1.0, nil, strings.Repeat("n", 256)}, "kind": {"rw", "", 1.0}, "permits": {0.0, -1.0, 10001.0, 1.5, "3"}, "units": {0.0, -1.0, 1.5},
			"label": {strings.Repeat("l", 129), 1.0}, "try": {1.0, "true", nil}, "heartbeatMs": {2999.0, 600001.0, -1.0, "3s"}, "renew": {"never", "", nil},
			"maxHoldMs": {0.0, -1.0, 2592000001.0, 1.5}, "maxWaitMs": {0.0, -1.0, 2592000001.0, 1.5}, "other": {1.0},
		} {
			for _, v := range values {
				broken := maps.Clone(body)
				delete(broken, map[string]string{"try": "maxWaitMs", "maxWaitMs": "try"}[name])
				broken[name] = v
				server, description := judge(broken)
				require.Error(t, server, "%s: %v", name, v)
				require.Error(t, description, "%s: %v", name, v)
			}
		}
	}
}

// TestRoutesAreDescribed: every route is in the description, and nothing else is.
func TestRoutesAreDescribed(t *testing.T) {
	t.Parallel()
	var have, want []string
	for _, r := range routes {
		have = append(have, r.method+" "+r.path)
		op, key := operation(r.method, r.path)
		require.NotNil(t, op, key)
		security, named := op["security"].([]any)
		require.Equal(t, r.public, named && len(security) == 0, "%s: security", key)
		_, unauthorized := op["responses"].(map[string]any)["401"]
		require.Equal(t, !r.public, unauthorized, "%s: 401", key)
		_, forbidden := op["responses"].(map[string]any)["403"]
		require.Equal(t, r.writes, forbidden, "%s: 403", key)
	}
	ids := map[string]bool{}
	for path, item := range described()["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			if method == "parameters" {
				continue
			}
			want = append(want, strings.ToUpper(method)+" "+path)
			name := op.(map[string]any)["operationId"].(string)
			require.False(t, ids[name], "operationId %s comes twice", name)
			ids[name] = true
		}
	}
	require.ElementsMatch(t, want, have)
}

// reasons are all there are.
var reasons = []reason{
	withdrawn, isBusy, waitLimit, notHeard, isClosing, mismatched, tooMany, refused, database, unsure,
	lostLease, lostSession, lostTicket, lostSettled, lostMaxHold, lostForced,
}

// TestWordsAreDescribed: states, reasons and kinds are the same in the description and here.
func TestWordsAreDescribed(t *testing.T) {
	t.Parallel()
	schemas := described()["components"].(map[string]any)["schemas"].(map[string]any)
	lease := deref(schemas["Lease"])["properties"].(map[string]any)
	enum := func(name string) (words []string) {
		for _, w := range deref(lease[name])["enum"].([]any) {
			words = append(words, w.(string))
		}
		return words
	}
	require.ElementsMatch(t, stateNames[1:], enum("state"))
	require.ElementsMatch(t, []string{mutex, semaphore, read, write}, enum("kind"))
	var words []string
	for _, r := range reasons {
		words = append(words, string(r))
	}
	require.ElementsMatch(t, words, enum("reason"))
}

// unseen are the described answers of some operations that no test has had.
func unseen() (missing []string) {
	for path, item := range described()["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			if method == "parameters" {
				continue
			}
			for status := range maps.Keys(op.(map[string]any)["responses"].(map[string]any)) {
				key := strings.ToUpper(method) + " " + path + " " + status
				if _, ok := seen.Load(key); !ok {
					missing = append(missing, key)
				}
			}
		}
	}
	slices.Sort(missing)
	return missing
}
