package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/bench/contend"
	"github.com/fairlock/fairlock/internal/tail"
)

const (
	// atOnce is how many contenders connect at one time: more would only wait for each other on few cores.
	atOnce = 8
	// readyLimit bounds the start of one contender, endLimit that of all from stop to the last line.
	readyLimit = 60 * time.Second
	endLimit   = 90 * time.Second
)

// Group is contenders of one lock.
type Group struct {
	members []*member
	dir     string // of the records; removed at the end
	marks   bool   // they understand "mark"
	begun   bool   // Go was called
}

// member is one contender's process, as the harness sees it.
type member struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	records string
	ready   chan struct{} // closed when it has connected
	ended   chan struct{} // closed when the process has been waited for; then all below are set
	totals  contend.Totals
	done    bool // it has said its totals
	stderr  tail.Tail
	err     error
}

// StartGroup starts n contenders of lock and returns when all have connected. If one fails, none is left.
func StartGroup(ctx context.Context, c Contestant, target, lock string, n int, hold time.Duration) (_ *Group, err error) {
	g := &Group{marks: c.Command == nil || c.Marks}
	sweep()
	if g.dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid())); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			g.Kill()
		}
	}()
	g.members = make([]*member, n)
	var starting errgroup.Group
	starting.SetLimit(atOnce)
	for i := range n {
		starting.Go(func() error {
			records := filepath.Join(g.dir, strconv.Itoa(i))
			m, err := startMember(c, records, "-kind", c.Kind, "-target", target, "-lock", lock,
				"-hold", hold.String(), "-records", records)
			if err != nil {
				return err
			}
			g.members[i] = m
			return m.awaitReady(ctx)
		})
	}
	return g, starting.Wait()
}

// dirPrefix begins the names of folders of records; the id of the harness's process and a random part follow.
const dirPrefix = "fairlock-bench-"

// sweep removes the folders of harnesses that were killed.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*-*"))
	for _, dir := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		if id, err := strconv.Atoi(pid); err == nil && errors.Is(syscall.Kill(id, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
}

func startMember(c Contestant, records string, args ...string) (*member, error) {
	var cmd *exec.Cmd
	if c.Command != nil {
		cmd = c.Command(args)
	} else {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cmd = exec.Command(self, append([]string{contend.Subcommand}, args...)...)
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	}
	m := &member{cmd: cmd, records: records, ready: make(chan struct{}), ended: make(chan struct{})}
	cmd.Stderr = &m.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// The child ends when this pipe does, so it cannot outlive the harness.
	if m.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run: start contender: %w", err)
	}
	go m.read(stdout)
	return m, nil
}

// read follows what the contender says, until it has ended.
func (m *member) read(stdout io.Reader) {
	defer close(m.ended)
	ready := false
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch {
		case word == "ready" && !ready:
			ready = true
			close(m.ready)
		case word == "done":
			m.err = json.Unmarshal([]byte(rest), &m.totals)
			m.done = m.err == nil
		}
	}
	_, _ = io.Copy(io.Discard, stdout)
	err := m.cmd.Wait()
	if err != nil || !m.done {
		m.err = errors.Join(fmt.Errorf("run: contender (pid %d) ended without its totals", m.cmd.Process.Pid), m.err, err)
		if words := strings.TrimSpace(m.stderr.String()); words != "" {
			m.err = errors.Join(m.err, errors.New(words))
		}
	}
}

func (m *member) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	select {
	case <-m.ready:
		return nil
	case <-m.ended:
		return m.err
	case <-ctx.Done():
		return fmt.Errorf("run: contender (pid %d) is not ready: %w", m.cmd.Process.Pid, ctx.Err())
	}
}

func (m *member) say(line string) { _, _ = io.WriteString(m.stdin, line+"\n") } // who is gone is found by await

// Go makes all begin.
func (g *Group) Go() {
	g.begun = true
	g.say("go")
}

// Mark makes those who can take their counters. Contenders that have not begun have none.
func (g *Group) Mark() {
	if g.marks && g.begun {
		g.say("mark")
	}
}

func (g *Group) say(line string) {
	for _, m := range g.members {
		m.say(line)
	}
}

// PIDs are the contenders' processes.
func (g *Group) PIDs() (pids []int) {
	for _, m := range g.members {
		pids = append(pids, m.cmd.Process.Pid)
	}
	return pids
}

// Await waits for d, or until a contender ends or ctx does, which is an error.
func (g *Group) Await(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	defer watching.Wait()
	for _, m := range g.members {
		watching.Go(func() {
			select {
			case <-m.ended:
				cancel(errors.Join(errors.New("run: a contender ended too early"), m.err))
			case <-ctx.Done():
			}
		})
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		cancel(nil) // before the watchers are waited for
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop ends the group and returns what each contender has recorded and counted.
func (g *Group) Stop(ctx context.Context) (records [][]contend.Record, totals []contend.Totals, err error) {
	defer g.Kill()
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	g.say("stop")
	for _, m := range g.members {
		_ = m.stdin.Close()
	}
	for _, m := range g.members {
		select {
		case <-m.ended:
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("run: contender (pid %d) has not ended: %w", m.cmd.Process.Pid, ctx.Err())
		}
		if m.err != nil {
			return nil, nil, m.err
		}
		rs, err := contend.ReadRecords(m.records)
		if err != nil {
			return nil, nil, err
		}
		records, totals = append(records, rs), append(totals, m.totals)
	}
	return records, totals, nil
}

// Kill ends what is left of the group. It may be repeated.
func (g *Group) Kill() {
	for _, m := range g.members {
		if m != nil {
			_ = m.cmd.Process.Kill()
			_ = m.stdin.Close()
			<-m.ended
		}
	}
	_ = os.RemoveAll(g.dir)
}
