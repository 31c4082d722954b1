package gateway

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// Client is somebody who may use a gateway.
type Client struct {
	// Name is shown to people before the label of each place in line. 1 to 64 letters, digits, and ._-
	Name string
	// Token is the secret, 16 to 256 letters, digits, and -._~+/=
	Token string
	// ReadOnly lets it look at queues, and no more.
	ReadOnly bool
}

// nobody is the client of a gateway that lets everybody in.
var nobody = &Client{}

var (
	clientName  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	clientToken = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]{16,256}$`)
)

// ReadClients reads clients, one on a line: its name, its token, and "read" if it may only look. Empty lines and those that begin
// with # are left out. Errors name the line and never the token.
func ReadClients(r io.Reader) ([]Client, error) {
	var clients []Client
	in := bufio.NewScanner(r)
	for n := 1; in.Scan(); n++ {
		fields := strings.Fields(in.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 2 || len(fields) > 3 || len(fields) == 3 && fields[2] != "read" {
			return nil, fmt.Errorf("line %d has %d words: must be NAME TOKEN or NAME TOKEN read", n, len(fields))
		}
		clients = append(clients, Client{Name: fields[0], Token: fields[1], ReadOnly: len(fields) == 3})
		if err := checkClients(clients); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return clients, in.Err()
}

// checkClients refuses bad clients. Its time tells of tokens, so it is for the operator's lists only.
func checkClients(clients []Client) error {
	names, tokens := map[string]bool{}, map[string]bool{}
	for _, c := range clients {
		switch {
		case !clientName.MatchString(c.Name):
			return invalid("client's name", quoted(c.Name), "must be 1 to 64 letters, digits, and ._-")
		case !clientToken.MatchString(c.Token):
			return invalid("token of client", quoted(c.Name), "must be 16 to 256 letters, digits, and -._~+/=")
		case names[c.Name]:
			return invalid("client's name", quoted(c.Name), "must not come twice")
		case tokens[c.Token]:
			return invalid("token of client", quoted(c.Name), "must not be another client's too")
		}
		names[c.Name], tokens[c.Token] = true, true
	}
	return nil
}

// keyring knows clients by their tokens, of which it keeps the sums.
type keyring struct {
	sums    [][sha256.Size]byte
	clients []*Client
	names   map[string]bool
}

func newKeyring(clients []Client) *keyring {
	k := &keyring{names: map[string]bool{}}
	for _, c := range clients {
		k.sums = append(k.sums, sha256.Sum256([]byte(c.Token)))
		c.Token = ""
		k.clients = append(k.clients, &c)
		k.names[c.Name] = true
	}
	return k
}

// find takes the same time whatever the token is and whoever's it is: sums are compared, each of them, and in full.
func (k *keyring) find(token string) *Client {
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i := range k.sums {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], k.sums[i][:]), i, found)
	}
	if found < 0 {
		return nil
	}
	return k.clients[found]
}

// SetClients replaces those who may use the gateway, such as when a token is changed. A client is known by its name: under a new token it has the leases that it
// had. Who is not among them any more is refused from now on, and its event streams end within a quarter of its heartbeat time; what it holds ends as if it had
// vanished. On an error nothing has changed.
func (s *Server) SetClients(clients []Client) error {
	cfg := s.cfg
	cfg.Clients = clients
	if err := cfg.checkClients(); err != nil {
		return err
	}
	s.keys.Store(newKeyring(clients))
	return nil
}

// admits reports whether the client of that name is let in. It is asked of those who were let in before, and have a stream.
func (s *Server) admits(client string) bool { return s.cfg.Anonymous || s.keys.Load().names[client] }

// authenticate says who asks, or why he is not let in.
func (s *Server) authenticate(r *http.Request) (*Client, *problem) {
	if s.cfg.Anonymous {
		return nobody, nil
	}
	values := r.Header.Values("Authorization")
	switch len(values) {
	case 0:
		return nil, refusal(http.StatusUnauthorized, "unauthorized", "the header Authorization is missing: must be Bearer and a token")
	case 1:
	default:
		return nil, refusal(http.StatusUnauthorized, "unauthorized", fmt.Sprintf("the header Authorization comes %d times: must come once", len(values)))
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, refusal(http.StatusUnauthorized, "unauthorized", "the scheme of Authorization is "+quoted(scheme)+": must be Bearer")
	}
	if c := s.keys.Load().find(strings.TrimSpace(token)); c != nil {
		return c, nil
	}
	return nil, refusal(http.StatusUnauthorized, "unauthorized", "the token is nobody's")
}
