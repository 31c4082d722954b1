package gateway

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSetClients: a token is replaced under a client that holds; another one is shut out, with its streams, and what it had goes on to the next.
func TestSetClients(t *testing.T) {
	bubble(t, func(b *bed) {
		const newToken = "alice-fedcba9876543210"
		alice := b.alice()
		stream := alice.stream("a", x)
		token := stream.holds().Token
		bob := b.client(bobToken)
		theirs := bob.stream("b", `"name":"y"`)
		theirs.holds()
		inLine := alice.stream("c", `"name":"y"`)
		inLine.want("waiting")
		looks := b.client(eveToken).open("GET", "/v1/watch", "")
		looks.want("locks")

		for _, bad := range [][]Client{nil, {{Name: "alice", Token: "short"}}, {{Name: "a", Token: newToken}, {Name: "b", Token: newToken}}} {
			require.ErrorContains(t, b.s.SetClients(bad), "must")
			require.Equal(t, "held", alice.look("a").State)
		}
		require.NoError(t, b.s.SetClients([]Client{{Name: "alice", Token: newToken}, {Name: "carl", Token: bobToken}}))
		began := time.Now()
		require.Equal(t, 401, alice.do("GET", "/v1/leases/"+id("a"), "").status, "the old token")
		renewed := b.client(newToken)
		require.Equal(t, token, renewed.look("a").Token, "its lease is its own under the new one")
		require.Equal(t, 200, renewed.beat("a").status)
		require.Equal(t, 404, bob.do("GET", "/v1/leases/"+id("b"), "").status, "who has his token now is somebody else")

		require.ErrorIs(t, theirs.last().err, io.EOF)
		require.LessOrEqual(t, time.Since(began), testHeartbeat/4)
		require.Equal(t, "held", inLine.next().name)
		require.LessOrEqual(t, time.Since(began), testHeartbeat)
		ended := looks.next()
		for ended.err == nil {
			ended = looks.next()
		}
		require.ErrorIs(t, ended.err, io.EOF)
		require.LessOrEqual(t, time.Since(began), testHeartbeat+idlePing)
		require.Equal(t, 200, renewed.release("a").status)
		require.Equal(t, 200, renewed.release("c").status)
		synctest.Wait()
	})
}
