package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// grant is the event "held" of a client.
type grant struct {
	who   *waiter
	token int64
	at    time.Time
	err   error // the stream ended otherwise; then nothing else is set but who
}

// crowd is the clients.
type crowd struct {
	lock   string
	http   *http.Client
	grants chan grant
	ctx    context.Context
	cancel context.CancelFunc
	gone   sync.WaitGroup
	n      int // ids given

	issued func(context.Context) (int64, error) // newest number of the lock; nil: not asked
}

// waiter is one client, from its request to the end of its stream.
type waiter struct {
	url, id string
	placed  chan error // one value when it stands in line
}

func newCrowd(ctx context.Context, lock string, n int) *crowd {
	c := &crowd{
		lock: lock, grants: make(chan grant, 2*n+10),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10, DisableCompression: true}},
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// leave ends all streams.
func (c *crowd) leave() {
	c.cancel()
	c.gone.Wait()
	c.http.CloseIdleConnections()
}

// join makes a client stand in line at a gateway, and returns when it does.
func (c *crowd) join(url string) (*waiter, error) {
	c.n++
	w := &waiter{url: url, id: fmt.Sprintf("client-%08d", c.n), placed: make(chan error, 1)}
	c.gone.Go(func() { c.follow(w) })
	return w, <-w.placed
}

// follow is the client's stream.
func (c *crowd) follow(w *waiter) {
	err := c.read(w)
	select {
	case w.placed <- err:
	default:
	}
	if err != nil && c.ctx.Err() == nil {
		c.grants <- grant{who: w, err: err}
	}
}

func (c *crowd) read(w *waiter) error {
	req, err := http.NewRequestWithContext(c.ctx, "PUT", w.url+"/v1/leases/"+w.id, strings.NewReader(fmt.Sprintf(`{"name":%q}`, c.lock)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("gateway: answers %s", resp.Status)
	}
	in := bufio.NewReaderSize(resp.Body, 1024)
	name, told := "", false
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(line, "event: "):
			name = strings.TrimSpace(line[7:])
			if name == "waiting" || name == "held" {
				select {
				case w.placed <- nil:
				default:
				}
			}
		case strings.HasPrefix(line, "data: ") && name == "held" && !told:
			at := time.Now()
			told = true // it comes again, for as long as it is held
			var v struct{ Token int64 }
			if err := json.Unmarshal([]byte(line[6:]), &v); err != nil {
				return err
			}
			c.grants <- grant{who: w, token: v.Token, at: at}
		case strings.HasPrefix(line, "data: ") && name == "released":
			return nil
		case strings.HasPrefix(line, "data: ") && (name == "lost" || name == "left" || name == "closing"):
			return fmt.Errorf("gateway: %s: %s", name, strings.TrimSpace(line))
		}
	}
}

// release gives the lock back, and returns when the answer has come.
func (c *crowd) release(w *waiter) error {
	req, err := http.NewRequestWithContext(c.ctx, "DELETE", w.url+"/v1/leases/"+w.id, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("gateway: DELETE answers %s", resp.Status)
	}
	return nil
}
