package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/internal/guard"
)

const (
	startLimit = 90 * time.Second // a JVM or a database on a loaded machine needs seconds
	stopLimit  = 15 * time.Second // then the group is killed
	poll       = 50 * time.Millisecond
)

// group is the processes of a set and the folder of their data.
type group struct {
	dir   string
	guard *guard.Guard
	quit  os.Signal // what ends a process in its own way

	mu    sync.Mutex // guards procs; ended is closed once
	procs []*process
	once  sync.Once
	err   error // of the one stop
}

// process is one server process.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it was reaped
	err  error         // how it ended; read only after done
}

func newGroup(name string, quit os.Signal) (*group, error) {
	dir, err := os.MkdirTemp("", "fairlock-bench-"+name+"-")
	if err != nil {
		return nil, err
	}
	g, err := guard.Start()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &group{dir: dir, guard: g, quit: quit}, nil
}

// attr puts a process into the group; it is then another user's if cred says so.
func (g *group) attr(cred *syscall.Credential) *syscall.SysProcAttr {
	attr := g.guard.Attr()
	attr.Credential = cred
	return attr
}

// start runs a server. Its output goes to NAME.log in the group's folder.
func (g *group) start(name string, cred *syscall.Credential, path string, args ...string) (*process, error) {
	log := filepath.Join(g.dir, name+".log")
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the child has its own copy
	cmd := exec.Command(path, args...)
	cmd.Dir = g.dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = g.attr(cred)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.procs = append(g.procs, p)
	return p, nil
}

// await repeats ready until it returns nil. It gives up when a process of the group ends.
func (g *group) await(ctx context.Context, ready func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := ready(ctx)
		if dead := g.dead(); dead != nil {
			return fmt.Errorf("ended at its start: %v; it wrote:\n%s", dead.err, tail(dead.log))
		}
		if err == nil {
			return nil
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return fmt.Errorf("%w; the last try: %w", context.Cause(ctx), err)
		}
	}
}

func (g *group) dead() *process {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.procs {
		select {
		case <-p.done:
			return p
		default:
		}
	}
	return nil
}

// stop asks the processes to end, waits, kills what is left, and removes the folder.
func (g *group) stop(ctx context.Context) error {
	g.once.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, stopLimit)
		defer cancel()
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, p := range g.procs {
			_ = p.cmd.Process.Signal(g.quit) // fails only if it has ended
		}
		for _, p := range g.procs {
			select {
			case <-p.done:
			case <-ctx.Done():
			}
		}
		g.guard.Release()
		<-g.guard.Done()
		for _, p := range g.procs {
			<-p.done
		}
		g.err = os.RemoveAll(g.dir)
	})
	return g.err
}

// fail ends a group that could not be started.
func (g *group) fail(err error) error { return errors.Join(err, g.stop(context.Background())) }

// pids are the processes with all their descendants: PostgreSQL has one for each connection.
func (g *group) pids() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []int
	for _, p := range g.procs {
		select {
		case <-p.done:
		default:
			all = append(all, p.cmd.Process.Pid)
		}
	}
	children := childrenByParent()
	for i := 0; i < len(all); i++ { // all grows as it is read
		all = append(all, children[all[i]]...)
	}
	return all
}

// childrenByParent is read from /proc; where there is none it is empty.
func childrenByParent() map[int][]int {
	children := map[int][]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return children
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// PID (NAME) STATE PARENT …, where NAME may have spaces and parentheses.
		id, rest, _ := strings.Cut(string(text), " ")
		fields := strings.Fields(rest[strings.LastIndexByte(rest, ')')+1:])
		pid, err1 := strconv.Atoi(id)
		if err1 != nil || len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	return children
}

// tail is the end of a log.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 2000
	return string(text[max(0, len(text)-most):])
}
