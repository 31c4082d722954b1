package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/memstore"
)

// TestBadInput: each value that breaks a rule is refused with a message that names both, and nothing comes of it.
func TestBadInput(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		lease := "/v1/leases/" + id("a")
		for _, r := range []struct {
			method, path, body string
			status             int
			want               string
		}{
			{"PUT", lease, `{"nam":"x"}`, 400, `field "nam" is unknown`},
			{"PUT", lease, `{"Name":"x"}`, 400, `field "Name" is unknown`},
			{"PUT", lease, `{"name":"x","name":"y"}`, 400, `field "name" comes twice`},
			{"PUT", lease, `{}`, 400, "name is missing"},
			{"PUT", lease, `{"name":""}`, 400, "must not be empty"},
			{"PUT", lease, `{"name":"a\tb"}`, 400, "control character"},
			{"PUT", lease, `{"name":"` + strings.Repeat("n", 256) + `"}`, 400, "255"},
			{"PUT", lease, `{"name":7}`, 400, `name is "7": must be a string`},
			{"PUT", lease, `{"name":null}`, 400, `name is "null": must not be null`},
			{"PUT", lease, `{"name":"x","kind":"mutx"}`, 400, `kind is "mutx": must be mutex, semaphore, read or write`},
			{"PUT", lease, `{"name":"x","kind":"semaphore"}`, 400, "permits is 0: must be from 1 to 10000"},
			{"PUT", lease, `{"name":"x","kind":"semaphore","permits":10001}`, 400, "permits is 10001: must be from 1 to 10000"},
			{"PUT", lease, `{"name":"x","kind":"semaphore","permits":2,"units":3}`, 400, "units is 3: must be from 1 to the permits 2"},
			{"PUT", lease, `{"name":"x","kind":"semaphore","permits":2,"units":0}`, 400, "units is 0: must be from 1 to the permits 2"},
			{"PUT", lease, `{"name":"x","kind":"semaphore","permits":1.5}`, 400, `permits is "1.5": must be a whole number`},
			{"PUT", lease, `{"name":"x","permits":2}`, 400, "permits and units are only for kind semaphore: kind is mutex"},
			{"PUT", lease, `{"name":"x","kind":"read","units":1}`, 400, "permits and units are only for kind semaphore: kind is read"},
			{"PUT", lease, `{"name":"x","label":"` + strings.Repeat("l", 129) + `"}`, 400, "label has 129 bytes: must have at most 128"},
			{"PUT", lease, `{"name":"x","heartbeatMs":2999}`, 400, "heartbeatMs is 2999: must be from 3000 to 600000"},
			{"PUT", lease, `{"name":"x","heartbeatMs":600001}`, 400, "heartbeatMs is 600001: must be from 3000 to 600000"},
			{"PUT", lease, `{"name":"x","heartbeatMs":"4s"}`, 400, `heartbeatMs is "\"4s\"": must be a whole number of milliseconds`},
			{"PUT", lease, `{"name":"x","heartbeatMs":9223372036854775807}`, 400, "must be a whole number of milliseconds"},
			{"PUT", lease, `{"name":"x","heartbeatMs":-9223372036854775808}`, 400, "must be a whole number of milliseconds"},
			{"PUT", lease, `{"name":"x","maxWaitMs":0}`, 400, "maxWaitMs is 0: must be from 1 to"},
			{"PUT", lease, `{"name":"x","maxWaitMs":-1}`, 400, "maxWaitMs is -1: must be from 1 to"},
			{"PUT", lease, `{"name":"x","maxHoldMs":0}`, 400, "maxHoldMs is 0: must be from 1 to"},
			{"PUT", lease, `{"name":"x","maxHoldMs":2592000001}`, 400, "maxHoldMs is 2592000001: must be from 1 to"},
			{"PUT", lease, `{"name":"x","try":1}`, 400, `try is "1": must be true or false`},
			{"PUT", lease, `{"name":"x","try":true,"maxWaitMs":5}`, 400, "try and maxWaitMs exclude each other"},
			{"PUT", lease, `{"name":"x","renew":"never"}`, 400, `must be connection or heartbeat`},
			{"PUT", lease, `["name"]`, 400, "the body must be a JSON object"},
			{"PUT", lease, `null`, 400, "the body must be a JSON object"},
			{"PUT", lease, `{"name":"x"`, 400, "the body must be a JSON object"},
			{"PUT", lease, `{"name":"x",}`, 400, "the body must be a JSON object"},
			{"PUT", lease, `{"name":}`, 400, "the body must be a JSON object"},
			{"PUT", lease, `{"name":"x"}{}`, 400, "has more behind it"},
			{"PUT", lease, "{\"name\":\"\xff\"}", 400, "the body is not UTF-8"},
			{"PUT", lease, `{"name":"\ud800"}`, 400, "U+FFFD"},
			{"PUT", lease, `{"name":"a\udc00b"}`, 400, "U+FFFD"},
			{"PUT", lease, `{"name":NaN}`, 400, "the body must be a JSON object"},
			{"PUT", lease, `{"name":"x","n\u0061me":"y"}`, 400, `field "name" comes twice`},
			{"PUT", lease, `{"name":"x","permits":1e1}`, 400, `permits is "1e1": must be a whole number`},
			{"PUT", lease, `{"name":` + strings.Repeat("[", 12_000) + `}`, 400, "the body must be a JSON object"},
			{"PUT", lease, ` `, 400, "the body must be a JSON object"},
			{"PUT", lease, `{"name":"` + strings.Repeat("x", maxBody) + `"}`, 413, "the body is larger than 16384 bytes"},
			{"PUT", lease + "?waitMs=", `{"name":"x"}`, 400, `waitMs is "": must be a whole number from 0 to 60000`},
			{"PUT", lease + "?waitMs=1s", `{"name":"x"}`, 400, `waitMs is "1s": must be`},
			{"PUT", lease + "?waitMs=-1", `{"name":"x"}`, 400, `waitMs is "-1": must be`},
			{"PUT", lease + "?waitMs=60001", `{"name":"x"}`, 400, `waitMs is "60001": must be`},
			{"PUT", lease + "?waitMs=1&waitMs=2", `{"name":"x"}`, 400, `query parameter "waitMs" comes 2 times`},
			{"PUT", lease + "?wait=1", `{"name":"x"}`, 400, `query parameter "wait" is unknown`},
			{"PUT", lease + "?%zz", `{"name":"x"}`, 400, "the query is malformed"},
			{"PUT", "/v1/leases/short", `{"name":"x"}`, 400, `lease id is "short": must be 8 to 64 letters, digits, - and _`},
			{"PUT", "/v1/leases/" + strings.Repeat("i", 65), `{"name":"x"}`, 400, "lease id is"},
			{"PUT", "/v1/leases/with%2Fslash", `{"name":"x"}`, 400, "lease id is"},
			{"GET", "/v1/leases/short", ``, 400, "lease id is"},
			{"GET", lease, ``, 404, "there is no lease"},
			{"GET", lease + "?x=1", ``, 400, `query parameter "x" is unknown`},
			{"DELETE", lease, ``, 404, "there is no lease"},
			{"DELETE", "/v1/leases/short", ``, 400, "lease id is"},
			{"DELETE", lease, `{}`, 400, "the request has a body: must have none"},
			{"POST", lease + "/heartbeat", ``, 404, "there is no lease"},
			{"POST", lease + "/heartbeat", `{}`, 400, "the request has a body: must have none"},
			{"GET", lease + "/events", ``, 404, "there is no lease"},
			{"GET", lease + "/events?since=1", ``, 400, `query parameter "since" is unknown`},
			{"GET", "/v1/locks?name=x", ``, 400, `query parameter "name" is unknown`},
			{"GET", "/v1/queue", ``, 400, "query parameter name is missing"},
			{"GET", "/v1/queue?name=", ``, 400, "must not be empty"},
			{"GET", "/v1/queue?name=%00", ``, 400, "control character"},
			{"GET", "/v1/queue?name=never-used", ``, 404, "no such lock"},
			{"GET", "/v1/watch?name=x", ``, 400, `query parameter "name" is unknown`},
			{"POST", lease, `{"name":"x"}`, 405, `method is "POST": must be PUT or GET or DELETE`},
			{"GET", lease + "/heartbeat", ``, 405, "must be POST"},
			{"DELETE", "/", ``, 405, "must be GET or HEAD"},
			{"GET", "/v1", ``, 404, `path "/v1" is nothing of the gateway's`},
			{"GET", "/v1/leases", ``, 404, "nothing of the gateway's"},
			{"GET", "//v1/locks", ``, 404, "nothing of the gateway's"},
			{"GET", "/v1/../v1/locks", ``, 404, "nothing of the gateway's"},
			{"GET", "/page/index.html", ``, 404, "nothing of the gateway's"},
		} {
			got := c.do(r.method, r.path, r.body)
			require.Equal(t, r.status, got.status, "%s %s %.60s: %s", r.method, r.path, r.body, got.body)
			p := got.problem(t)
			require.Contains(t, p.Detail, r.want, "%s %s %.60s", r.method, r.path, r.body)
			require.Less(t, len(p.Detail), 400)
			require.NotEmpty(t, p.Title)
		}
		require.Equal(t, "PUT, GET, DELETE", c.do("PATCH", lease, "").header.Get("Allow"))
		for _, mime := range []string{"text/plain", "", "application/json; charset=latin1", "application/x-www-form-urlencoded", "application/json;;"} {
			got := c.do("PUT", lease, "{"+x+"}", "Content-Type", mime)
			require.Equal(t, 415, got.status, mime)
			require.Contains(t, got.problem(t).Detail, "must be application/json")
		}
		require.Empty(t, b.s.all)
		require.Empty(t, b.srv.Locks(), "nothing has come to the database")
		require.Equal(t, 200, c.do("PUT", lease, "{"+x+"}", "Content-Type", "Application/JSON; charset=UTF-8").status)
	})
}

// TestTokens: no token, a wrong one, one that may only read; each for every operation.
func TestTokens(t *testing.T) {
	bubble(t, func(b *bed) {
		for _, r := range routes {
			path := strings.ReplaceAll(r.path, "{id}", id("a"))
			body := ""
			if r.method == "PUT" {
				body = "{" + x + "}"
			}
			if r.public {
				require.Equal(t, 200, b.client("").do(r.method, path, body).status, path)
				continue
			}
			for auth, want := range map[string]string{
				"":                                      "the header Authorization is missing",
				"Bearer":                                "the token is nobody's",
				"Bearer " + strings.ToUpper(aliceToken): "the token is nobody's",
				"Bearer " + aliceToken + "x":            "the token is nobody's",
				"Basic " + aliceToken:                   `the scheme of Authorization is "Basic": must be Bearer`,
			} {
				c := b.client("")
				var header []string
				if auth != "" {
					header = []string{"Authorization", auth}
				}
				got := c.do(r.method, path, body, header...)
				require.Equal(t, 401, got.status, "%s %s %q", r.method, path, auth)
				require.Contains(t, got.problem(t).Detail, want)
				require.Equal(t, `Bearer realm="fairlock"`, got.header.Get("WWW-Authenticate"))
			}
			if r.writes {
				got := b.client(eveToken).do(r.method, path, body)
				require.Equal(t, 403, got.status)
				require.Contains(t, got.problem(t).Detail, "client eve may only look at queues")
			}
		}
		require.Equal(t, 200, b.client(eveToken).do("GET", "/v1/locks", "").status)
		require.Equal(t, 200, b.client("").do("GET", "/v1/locks", "", "Authorization", "bearer "+bobToken).status)
		require.Empty(t, b.s.all)
	})
}

// TestAuthorizationOnce: two tokens are none.
func TestAuthorizationOnce(t *testing.T) {
	bubble(t, func(b *bed) {
		text, err := io.ReadAll(b.raw("GET /v1/locks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " + aliceToken +
			"\r\nAuthorization: Bearer " + bobToken + "\r\n\r\n"))
		require.NoError(t, err)
		require.Contains(t, string(text), "401 Unauthorized")
		require.Contains(t, string(text), "the header Authorization comes 2 times: must come once")
	})
}

// TestMethods: what a path has is in Allow, and HEAD is where GET needs no token.
func TestMethods(t *testing.T) {
	bubble(t, func(b *bed) {
		for path, allow := range map[string]string{
			"/healthz": "GET, HEAD", "/": "GET, HEAD", "/v1/locks": "GET", "/v1/leases/" + id("a"): "PUT, GET, DELETE",
		} {
			for _, method := range []string{"OPTIONS", "PATCH", "TRACE", "PROPFIND"} {
				r := b.alice().do(method, path, "")
				require.Equal(t, 405, r.status, "%s %s", method, path)
				require.Equal(t, allow, r.header.Get("Allow"), "%s %s", method, path)
			}
		}
	})
}

// TestAccept: a client says that it wants events, in whatever case, and that it does not.
func TestAccept(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/*": false, "application/json": false, "text/event-stream": true, "Text/Event-Stream": true,
		"application/json, text/event-stream;q=0.5": true, "text/event-stream;q=0": false, "text/event-stream;q=0.000, */*": false,
		"application/x-text/event-streams": false,
	} {
		r := &http.Request{Header: http.Header{"Accept": {accept}}}
		require.Equal(t, want, accepts(r), accept)
	}
	require.True(t, accepts(&http.Request{Header: http.Header{"Accept": {"text/plain", "text/event-stream"}}}))
}

// TestPagesOfOthers: a browser that is led here by somebody else's page is kept out.
func TestPagesOfOthers(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.client("")
		for _, r := range routes {
			path := strings.ReplaceAll(r.path, "{id}", id("a"))
			got := c.do(r.method, path, "", "Host", "rebound.example:8420")
			require.Equal(t, 421, got.status, "%s %s", r.method, path)
			require.Contains(t, got.problem(t).Detail, `Host is "rebound.example:8420": must be localhost or an address`)
			if r.method != "GET" {
				got = c.do(r.method, path, "", "Origin", "https://other.example", "Sec-Fetch-Site", "cross-site")
				require.Equal(t, 403, got.status, "%s %s", r.method, path)
			}
		}
		for _, host := range []string{"localhost:8420", "LOCALHOST", "127.0.0.1:8420", "[::1]:8420", "::1", "192.0.2.7"} {
			require.Equal(t, 200, c.do("GET", "/healthz", "", "Host", host).status, host)
		}
		c.held("a", x)
	}, func(c *Config, _ *fairlock.Config) { c.Clients, c.Anonymous, c.LocalOnly = nil, true, true })
}

// TestFiles: the page and what belongs to it, with a policy that lets nothing else in.
func TestFiles(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.client("")
		for path, mime := range map[string]string{
			"/": "text/html", "/app.js": "text/javascript", "/style.css": "text/css", "/icon.svg": "image/svg+xml", "/openapi.yaml": "application/yaml",
		} {
			r := c.do("GET", path, "")
			require.Equal(t, 200, r.status)
			require.True(t, strings.HasPrefix(r.header.Get("Content-Type"), mime))
			require.Contains(t, r.header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'")
			require.Contains(t, r.header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
			require.Equal(t, "nosniff", r.header.Get("X-Content-Type-Options"))
			require.Equal(t, "same-origin", r.header.Get("Cross-Origin-Resource-Policy"))
			require.NotEmpty(t, r.body)
			if path != "/icon.svg" { // its namespace
				require.NotContains(t, string(r.body), "http://")
			}
			require.NotContains(t, string(r.body), "https://")
			require.NotContains(t, string(r.body), " style=")
			require.Empty(t, c.do("HEAD", path, "").body)
		}
	})
}

// TestInspect: a lock with its holder and its queue, under whatever name.
func TestInspect(t *testing.T) {
	bubble(t, func(b *bed) {
		c := b.alice()
		name := `../a//b?#%2F "quoted" 日本`
		c.held("a", `"name":"../a//b?#%2F \"quoted\" 日本","label":"first"`)
		for i := range 3 {
			b.client(bobToken).queued(fmt.Sprint("w", i), `"name":"../a//b?#%2F \"quoted\" 日本"`)
		}
		time.Sleep(time.Second) // for the tickets
		r := c.do("GET", "/v1/queue?name=..%2Fa%2F%2Fb%3F%23%252F%20%22quoted%22%20%E6%97%A5%E6%9C%AC", "")
		require.Equal(t, 200, r.status, "%s", r.body)
		var q queueView
		unmarshal(t, r.body, &q)
		require.Equal(t, name, q.Name)
		require.Len(t, q.Holders, 1)
		require.Equal(t, "alice/first", q.Holders[0].Owner.Label)
		require.Equal(t, b.m.Session(), q.Holders[0].Owner.Session)
		require.EqualValues(t, 1000, q.Holders[0].Owner.HeldMs)
		require.Len(t, q.Waiters, 3)
		for i, w := range q.Waiters {
			require.Equal(t, i+1, w.Position)
			require.Equal(t, "bob", w.Owner.Label)
		}
		r = c.do("GET", "/v1/locks", "")
		var list struct{ Locks []lockView }
		unmarshal(t, r.body, &list)
		require.Len(t, list.Locks, 1)
		require.EqualValues(t, 3, list.Locks[0].Waiting)
	})
}

// TestEveryAnswer provokes each status of each operation in the description.
func TestEveryAnswer(t *testing.T) {
	t.Parallel()
	each := func(f func(r *route, path string)) {
		for i := range routes {
			f(&routes[i], strings.ReplaceAll(routes[i].path, "{id}", id("a")))
		}
	}
	lease := "/v1/leases/" + id("a")
	alone(t, func(b *bed) {
		each(func(r *route, path string) { b.client("").do(r.method, path, "", "Host", "elsewhere.example") })
	}, func(c *Config, _ *fairlock.Config) { c.Clients, c.Anonymous, c.LocalOnly = nil, true, true })

	alone(t, func(b *bed) {
		c := b.alice()
		c.open("GET", "/v1/watch", "")
		each(func(r *route, path string) {
			b.client("").do(r.method, path, "")                        // 401, or 200 of public ones
			b.client(eveToken).do(r.method, path, "")                  // 403, or 404
			c.do(r.method, path+"?x=1", "{}")                          // 400
			c.do(r.method, strings.Replace(path, "/a-", "/b-", 1), "") // 404, and 503 of watch
		})
		c.do("GET", "/v1/queue?name=nothing", "") // 404
		c.held("a", x)
		c.queued("b", x)
		c.put("b", 0, `"name":"y"`)                                    // 409
		c.put("c", 0, x+`,"label":"`+strings.Repeat("l", maxBody)+`"`) // 413
		c.do("PUT", lease, "{"+x+"}", "Content-Type", "text/plain")    // 415
		c.put("d", time.Second, x+`,"try":true`)                       // 423
		c.put("e", time.Second, x)                                     // 429
		c.do("GET", lease, "")
		c.do("GET", "/v1/locks", "")
		c.do("GET", "/v1/queue?name=x", "")
		c.beat("a")
		for range mostStreams {
			c.open("GET", lease+"/events", "")
		}
		c.do("GET", lease+"/events", "") // 429
		remove := b.store.Hook(memstore.Before, memstore.OpSettle, memstore.Hang)
		c.release("b")
		c.release("a") // 202
		remove()
		time.Sleep(10 * time.Second)
		c.release("a")
		c.beat("a")      // 410
		c.put("a", 0, x) // 410
		c.held("l", x+`,"maxHoldMs":10`)
		time.Sleep(time.Second)
		c.release("l") // 410
	}, func(c *Config, f *fairlock.Config) { c.MaxWatchers, f.MaxWaiters = 1, 1 })

	alone(t, func(b *bed) {
		c := b.alice()
		c.held("a", x+`,"heartbeatMs":600000`)
		refuse := b.store.Hook(memstore.Before, memstore.OpAny, memstore.Fail(100_000, mongo.CommandError{Code: 13, Name: "Unauthorized"}))
		c.put("b", time.Second, `"name":"y"`)
		c.do("GET", "/v1/locks", "")
		c.do("GET", "/v1/queue?name=x", "")
		c.do("GET", "/readyz", "")
		refuse()
		c.open("GET", "/v1/watch", "")
		c.do("GET", "/v1/watch", "") // 429
		var ends []func()
		take := func(n int, client string) {
			for range n {
				end, p := b.s.reads.take(b.s.base, client)
				require.Nil(t, p)
				ends = append(ends, end)
			}
		}
		take(mostReadsEach, "alice")
		c.do("GET", "/v1/locks", "")        // 429
		c.do("GET", "/v1/queue?name=x", "") // 429
		for i := range mostReads/mostReadsEach - 1 {
			take(mostReadsEach, fmt.Sprint(i))
		}
		b.client(bobToken).do("GET", "/v1/locks", "")        // 503
		b.client(bobToken).do("GET", "/v1/queue?name=x", "") // 503
		for _, end := range ends {
			end()
		}
		hang := b.store.Hook(memstore.Before, memstore.OpSettle, memstore.Hang)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			b.close()
		}()
		synctest.Wait()
		c.do("GET", "/healthz", "")
		c.do("GET", lease+"/events", "")
		c.put("c", 0, x)
		hang()
		<-closed
	}, func(c *Config, _ *fairlock.Config) { c.MaxWatchersEach = 1 })
	require.Empty(t, unseen())
}

func unmarshal(t *testing.T, text []byte, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(text, v), "%s", text)
}
