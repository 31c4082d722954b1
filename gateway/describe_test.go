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

// conforms is as much of JSON Schema as the description uses.
func conforms(schema, v any) error {
	s := deref(schema)
	if all, ok := s["allOf"].([]any); ok {
		for _, part := range all {
			if err := conforms(part, v); err != nil {
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
	var reasons []string
	for _, r := range []reason{
		withdrawn, isBusy, waitLimit, notHeard, isClosing, mismatched, tooMany, refused, database, unsure,
		lostLease, lostSession, lostTicket, lostSettled, lostMaxHold,
	} {
		reasons = append(reasons, string(r))
	}
	require.ElementsMatch(t, reasons, enum("reason"))
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
