package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fairlock/fairlock"
)

const watchLong = `watch shows locks as they change, until it gets SIGINT (Ctrl-C), SIGTERM or SIGHUP. With NAME it is one lock, which need
not be there yet.

On a terminal it is a table that is drawn again and again, with NAME that of queue. Elsewhere, and with --json, it is a line
for each change of who holds or how many wait: at first for every lock that is in use, then for what has changed. It reads the
database every --interval: what comes and goes in between is not seen.

A line has the time, the name, the state (one of status, or "gone"), the holders' tokens and owners, and how many wait. A line of
JSON has them as time, name, state, holders, held, waiting and lastToken; held and waiting are places with NAME, and units without.

While the database is out of reach watch goes on and says so, once, on standard error. When nobody reads its output any more it ends,
within an --interval, as if by SIGPIPE.`

func newWatchCmd() *cobra.Command {
	w := &watcher{}
	cmd := &cobra.Command{
		Use:   "watch [flags] [NAME]",
		Short: "Show locks as they change",
		Long:  watchLong,
		Example: "  fairlock watch\n" +
			"  fairlock watch nightly-backup --interval 200ms\n" +
			"  fairlock watch --json | jq --unbuffered -r 'select(.waiting > 10) | .name'",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneName(cmd, args)
		},
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if w.interval < 100*time.Millisecond || w.interval > time.Hour {
				return usagef(cmd, "--interval is %v: must be from 100ms to 1h", w.interval)
			}
			if len(args) > 0 {
				w.name = args[0]
			}
			return w.run(cmd)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&w.json, "json", false, "print one JSON object per line, also on a terminal")
	f.DurationVar(&w.interval, "interval", time.Second, "time between two looks at the database, 100ms to 1h")
	return cmd
}

// watcher is one fairlock watch. All of it belongs to one goroutine.
type watcher struct {
	json     bool
	interval time.Duration
	name     string // "": all

	cmd    *cobra.Command
	m      *opened
	told   map[string]string // what was printed last of each lock, without the time
	failed bool              // the last look did
	info   *fairlock.LockInfo
	jobs   chan os.Signal // job control, only on a terminal: else it is nil
}

func (w *watcher) run(cmd *cobra.Command) error {
	w.cmd, w.told = cmd, map[string]string{}
	ctx, sig, stop := untilSignal(cmd.Context())
	defer stop()
	m, err := sharedOf(cmd).open(ctx, fairlock.Config{})
	if err != nil {
		if sig() != 0 {
			return signalled(sig())
		}
		return err
	}
	w.m = m
	if file, ok := cmd.OutOrStdout().(*os.File); ok && !w.json && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		err = w.live(ctx, file)
	} else {
		err = w.each(ctx, w.lines)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	// Nothing has failed when it ends by a signal: that is how it is meant to end.
	return errors.Join(err, m.close(end))
}

// each looks until ctx ends, or until a failure that does not pass by itself.
func (w *watcher) each(ctx context.Context, show func([]listed, error) error) error {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		locks, err := w.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, fairlock.ErrPrivilege) || errors.Is(err, fairlock.ErrMalformed) {
			return err
		}
		if err := show(locks, err); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case sig := <-w.jobs:
			if err := w.job(sig); err != nil {
				return err
			}
		case <-tick.C:
			if file, ok := w.cmd.OutOrStdout().(*os.File); ok && readerGone(file) {
				return brokenPipe()
			}
		}
	}
}

// look reads all locks, or the one. Its bound is for a database that does not answer.
func (w *watcher) look(ctx context.Context) ([]listed, error) {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	if w.name == "" {
		return list(ctx, w.m.Manager, true)
	}
	info, err := w.m.Inspect(ctx, w.name)
	w.info = info
	if errors.Is(err, fairlock.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []listed{{LockSummary: fairlock.LockSummary{
		Name: info.Name, Kind: info.Kind, Permits: info.Permits, LastToken: info.LastToken, IdleSince: info.IdleSince,
		Held: int64(len(info.Holders)), Waiting: int64(len(info.Waiters)) + info.More,
	}, Holders: info.Holders}}, nil
}

// change is a line of JSON.
type change struct {
	Time      time.Time        `json:"time"`
	Name      string           `json:"name"`
	State     string           `json:"state"`
	Holders   []fairlock.Place `json:"holders"`
	Held      int64            `json:"held"`
	Waiting   int64            `json:"waiting"`
	LastToken int64            `json:"lastToken"`
}

// lines prints what has changed.
func (w *watcher) lines(locks []listed, err error) error {
	if err != nil {
		if !w.failed {
			say(w.cmd.ErrOrStderr(), err.Error()+"; trying again")
		}
		w.failed = true
		return nil
	}
	if w.failed {
		say(w.cmd.ErrOrStderr(), "the database is back")
	}
	w.failed = false
	now := time.Now()
	here := make(map[string]bool, len(locks))
	for i := range locks {
		l := &locks[i]
		here[l.Name] = true
		c := change{now, l.Name, l.state(), l.Holders, l.Held, l.Waiting, l.LastToken}
		text := describe(&c)
		before, known := w.told[l.Name]
		w.told[l.Name] = text
		if text == before || !known && c.State == "free" && w.name == "" {
			continue
		}
		if err := w.print(&c, text); err != nil {
			return err
		}
	}
	for name := range w.told {
		if here[name] {
			continue
		}
		delete(w.told, name)
		c := change{Time: now, Name: name, State: "gone", Holders: []fairlock.Place{}}
		if err := w.print(&c, describe(&c)); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) print(c *change, text string) error {
	out := w.cmd.OutOrStdout()
	if w.json {
		return view{out: out}.compact(c)
	}
	_, err := fmt.Fprintf(out, "%s %s\n", c.Time.UTC().Format("2006-01-02T15:04:05.000Z"), text)
	return err
}

// describe is a line without its time: two that are equal mean that nothing has changed.
func describe(c *change) string {
	var b strings.Builder
	name := safe(c.Name)
	if strings.ContainsAny(name, ` "`) {
		name = fmt.Sprintf("%q", c.Name)
	}
	fmt.Fprintf(&b, "%s %s", name, c.State)
	for i := range c.Holders {
		p := &c.Holders[i]
		who := "?"
		if p.Owner != nil {
			who = ownerOf(p.Owner)
		}
		fmt.Fprintf(&b, " token=%d by=%s", p.Token, safe(who))
		if stateOf(p) == "expired" {
			b.WriteString(" (expired)")
		}
	}
	fmt.Fprintf(&b, " waiting=%d", c.Waiting)
	return b.String()
}

// state is the one word for a lock.
func (l *listed) state() string {
	for i := range l.Holders {
		if stateOf(&l.Holders[i]) == "held" {
			return "held"
		}
	}
	switch {
	case l.Malformed != "":
		return "malformed"
	case len(l.Holders) > 0:
		return "expired"
	case l.Held > 0:
		return "held" // and gone since
	case l.Waiting > 0:
		return "waiting"
	}
	return "free"
}

// Sequences of terminals: the other screen, without cursor and without breaking long lines; back; and to its beginning.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	homeScreen  = "\x1b[H"
	eraseLine   = "\x1b[K"
	eraseBelow  = "\x1b[J"
)

// live draws the table again and again. What was there before is there again afterwards.
func (w *watcher) live(ctx context.Context, out *os.File) (err error) {
	if _, err := io.WriteString(out, enterScreen); err != nil {
		return err
	}
	defer func() {
		_, failed := io.WriteString(out, leaveScreen)
		err = errors.Join(err, failed)
	}()
	jobs, stop := jobControl()
	defer stop()
	w.jobs = jobs
	return w.each(ctx, func(locks []listed, err error) error {
		height := 24
		if _, h, err := term.GetSize(int(out.Fd())); err == nil && h > 2 {
			height = h
		}
		_, err = io.WriteString(out, homeScreen+w.screen(locks, err, colorful(out), height)+eraseBelow)
		return err
	})
}

// job gives the terminal to the shell in order, and takes it again. Who was stopped without being asked (SIGSTOP) could not.
func (w *watcher) job(sig os.Signal) error {
	out := w.cmd.OutOrStdout()
	if isStop(sig) {
		if _, err := io.WriteString(out, leaveScreen); err != nil {
			return err
		}
		stopSelf(w.jobs)
	}
	_, err := io.WriteString(out, enterScreen)
	return err
}

// screen is what a terminal of that height shows: a headline and the table, locks in use first.
func (w *watcher) screen(locks []listed, failure error, color bool, height int) string {
	title := "all locks"
	if w.name != "" {
		title = "lock " + safe(w.name)
	}
	lines := []string{fmt.Sprintf("fairlock: %s in %s at %s; Ctrl-C ends", title, safe(w.m.db.Name()), time.Now().Format("15:04:05")), ""}
	switch {
	case failure != nil:
		lines = append(lines, safe(failure.Error()), "trying again")
	case len(locks) == 0 && w.name != "":
		lines = append(lines, "there is no such lock; waiting for it")
	case len(locks) == 0:
		lines = append(lines, "there are no locks; waiting for one")
	default:
		var used, idle []listed
		for i := range locks {
			if locks[i].state() == "free" {
				idle = append(idle, locks[i])
			} else {
				used = append(used, locks[i])
			}
		}
		var b strings.Builder
		if v := (view{out: &b, color: color}); w.info != nil { // a Builder takes all
			_ = v.line(w.info)
		} else {
			_ = v.locks(append(used, idle...))
		}
		lines = append(lines, strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")...)
	}
	if over := len(lines) - height + 1; over > 1 {
		lines = append(lines[:height-1], fmt.Sprintf("and %d more lines", over))
	}
	return strings.Join(lines, eraseLine+"\r\n") + eraseLine
}
