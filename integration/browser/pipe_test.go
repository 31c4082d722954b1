package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/internal/tail"
)

// browser is a running Chromium. Messages are JSON objects, each ended by a zero byte: requests on its file 3, answers and events on its file 4.
type browser struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	home   string
	stderr tail.Tail
	ended  chan struct{} // closed when its output has ended

	mu     sync.Mutex // guards all below, and writes to in
	last   int
	wait   map[int]chan message
	listen func(message) // called for each event, in order; must not block
}

// message is a request, an answer or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// flags keep it from everything but what it is told: no sandbox, since tests run as root in containers, and no talk with its maker's servers.
var flags = []string{
	"--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
	"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions",
	"--no-default-browser-check", "--mute-audio", "--hide-scrollbars", "--force-color-profile=srgb", "--lang=en-US",
}

// start starts one.
func start(ctx context.Context) (*browser, error) {
	path, err := find(ctx)
	if err != nil {
		return nil, err
	}
	b := &browser{ended: make(chan struct{}), wait: map[int]chan message{}, listen: func(message) {}}
	if b.home, err = os.MkdirTemp("", "fairlock-browser-"); err != nil {
		return nil, err
	}
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b.in = ourOut
	b.cmd = exec.Command(path, append(flags, "--user-data-dir="+b.home, "about:blank")...)
	b.cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	b.cmd.Stderr = &b.stderr
	b.cmd.Env = append(os.Environ(), "HOME="+b.home)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it has children
	b.cmd.WaitDelay = 5 * time.Second                       // which may keep its stderr open
	err = b.cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close()
	if err != nil {
		return nil, errors.Join(err, ourOut.Close(), ourIn.Close(), os.RemoveAll(b.home))
	}
	go b.read(ourIn)
	return b, nil
}

// read takes what it says, until it ends.
func (b *browser) read(out io.ReadCloser) {
	defer close(b.ended)
	defer func() { _ = out.Close() }()
	in := bufio.NewReader(out)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if m.ID == 0 {
			b.listen(m)
		} else if c := b.wait[m.ID]; c != nil {
			delete(b.wait, m.ID)
			c <- m
		}
		b.mu.Unlock()
	}
}

// call sends a request and waits for its answer, which goes into result if that is not nil.
func (b *browser) call(ctx context.Context, session, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	b.mu.Lock()
	b.last++
	m := message{ID: b.last, Method: method, Params: raw, Session: session}
	b.wait[m.ID] = answer
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("browser: %s: %w: %s", method, err, b.stderr.String())
	}
	select {
	case m = <-answer:
	case <-b.ended:
		return fmt.Errorf("browser: %s: Chromium has ended: %s", method, b.stderr.String())
	case <-ctx.Done():
		return fmt.Errorf("browser: %s: %w", method, ctx.Err())
	}
	switch {
	case m.Error != nil:
		return fmt.Errorf("browser: %s: %s", method, m.Error.Message)
	case result == nil:
		return nil
	}
	return json.Unmarshal(m.Result, result)
}

// stop ends it and all its children.
func (b *browser) stop() error {
	_ = b.in.Close() // by which it ends, too
	_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
	_ = b.cmd.Wait()
	<-b.ended
	return os.RemoveAll(b.home)
}
