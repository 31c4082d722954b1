package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/queue"
)

const statusLong = `status shows all locks, or with NAME one lock and its queue in order.

  STATE      free; held; waiting (for a moment, between two holders); expired: the holder's lease is over, and it is about
             to be cleared by one of those who wait, or by the next one who asks
  HOLDER     label@host:process id; ? for a moment after the grant, or of a process that died in it
  TOKEN      the holder's fencing token
  HELD       time since the holder was admitted (of a mutex)
  TTL-LEFT   time until its lease is over unless it is renewed
  QUEUE      how many wait

A lock that nobody has used for a day is not listed.

JSON is an array of objects with name, kind, permits, held and waiting (in units), lastToken, idleSince, malformed (why a document is
no lock) and holders, whose places are those of "queue --json"; with NAME it is the object of "queue --json".

Exit code 3: there is no lock NAME.`

func newStatusCmd() *cobra.Command {
	var output string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status [flags] [NAME]",
		Short: "Show who holds locks and who waits",
		Long:  statusLong,
		Example: "  fairlock status\n" +
			"  fairlock status nightly-backup\n" +
			"  fairlock status --json | jq '.[] | select(.waiting > 0)'",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef(cmd, "unexpected argument %q after NAME %q", args[1], args[0])
			}
			return nil
		},
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON {
				if cmd.Flags().Changed("output") && output != "json" {
					return usagef(cmd, "--output is %q: must not be given with --json", output)
				}
				output = "json"
			}
			if !slices.Contains([]string{"table", "wide", "json", "name"}, output) {
				return usagef(cmd, "--output is %q: must be table, wide, json or name", output)
			}
			if len(args) > 0 {
				if err := fairlock.ValidateName(args[0]); err != nil {
					return usagef(cmd, "%w", err)
				}
			}
			return sharedOf(cmd).use(fairlock.Config{}, func(ctx context.Context, m *opened) error {
				return status(ctx, cmd, m, output, args)
			})
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, wide, json or name")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as -o json does")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "wide", "json", "name"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func status(ctx context.Context, cmd *cobra.Command, m *opened, output string, args []string) error {
	v := view{out: cmd.OutOrStdout(), wide: output == "wide"}
	if len(args) > 0 {
		info, err := m.Inspect(ctx, args[0])
		switch {
		case err != nil:
			return err
		case output == "json":
			return v.json(info)
		case output == "name":
			return v.names(info.Name)
		}
		return v.queue(info)
	}
	locks, err := list(ctx, m.Manager, output != "name")
	switch {
	case err != nil:
		return err
	case output == "json":
		return v.json(locks)
	case output == "name":
		var names []string
		for i := range locks {
			if fairlock.ValidateName(locks[i].Name) == nil { // else a document that somebody else has put there
				names = append(names, locks[i].Name)
			}
		}
		return v.names(names...)
	}
	return v.locks(locks)
}

// listed is a lock in a list, with its holders.
type listed struct {
	fairlock.LockSummary
	Holders []fairlock.Place `json:"holders"`

	queue int64 // how many wait; Waiting is in units
}

// atOnce is how many locks are inspected at a time.
const atOnce = 16

// list reads all locks. Who holds is read for each that is in use; one that has gone meanwhile is shown without.
func list(ctx context.Context, m *fairlock.Manager, holders bool) ([]listed, error) {
	sums, err := m.List(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]listed, len(sums))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, s := range sums {
		all[i] = listed{s, []fairlock.Place{}, s.Waiting}
		if s.Held == 0 || !holders {
			continue
		}
		g.Go(func() error {
			info, err := m.Inspect(ctx, s.Name)
			if err == nil {
				all[i].Holders, all[i].queue = info.Holders, waitersOf(info)
			} else if !errors.Is(err, fairlock.ErrNotFound) {
				return err
			}
			return nil
		})
	}
	return all, g.Wait()
}

// view prints.
type view struct {
	out   io.Writer
	wide  bool
	color bool // also where out is no terminal
}

func (v view) json(value any) error {
	enc := json.NewEncoder(v.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

// compact prints one line.
func (v view) compact(value any) error {
	enc := json.NewEncoder(v.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

// names prints names as they are, for scripts. They have no control characters.
func (v view) names(names ...string) error {
	_, err := io.WriteString(v.out, strings.Join(append(names, ""), "\n"))
	return err
}

// newTable has a table's headers, and colours the column STATE.
func (v view) newTable(headers ...string) *table {
	if v.wide {
		headers = append(headers, "SESSION", "KIND", "PERMITS", "LAST-TOKEN", "IDLE-SINCE")
	}
	return v.stateTable(headers...)
}

// stateTable colours the column STATE.
func (v view) stateTable(headers ...string) *table {
	t := &table{}
	t.add(headers...)
	state := slices.Index(headers, "STATE")
	if v.color || colorful(v.out) {
		colors := map[string]string{"held": "32", "waiting": "33", "waits": "33", "expired": "31", "malformed": "31", "free": "2"}
		t.color = func(row, col int, cell string) string {
			if code := colors[cell]; row > 0 && col == state && code != "" {
				return "\x1b[" + code + "m" + cell + "\x1b[0m"
			}
			return cell
		}
	}
	return t
}

// row adds one place of a lock, or none.
func (v view) row(t *table, s *fairlock.LockSummary, state string, p *fairlock.Place, waiting string) {
	holder, token, held, left, session := "-", "-", "-", "-", "-"
	if p != nil {
		holder, token = "?", strconv.FormatInt(p.Token, 10)
		if o := p.Owner; o != nil {
			holder, left, session = ownerOf(o), age(o.LeaseLeft), o.Session
			if s.Kind == string(queue.KindMutex) {
				held = age(o.Held)
			}
		}
	}
	cells := []string{s.Name, state, holder, token, held, left, waiting}
	if v.wide {
		idle := "-"
		if s.IdleSince != nil {
			idle = stamp(*s.IdleSince)
		}
		cells = append(cells, session, s.Kind, strconv.FormatInt(s.Permits, 10), strconv.FormatInt(s.LastToken, 10), idle)
	}
	t.add(cells...)
}

// locks prints the list. A lock with several holders takes a row for each.
func (v view) locks(all []listed) error {
	t := v.newTable("NAME", "STATE", "HOLDER", "TOKEN", "HELD", "TTL-LEFT", "QUEUE")
	for i := range all {
		l := &all[i]
		waiting := strconv.FormatInt(l.queue, 10)
		if len(l.Holders) == 0 {
			v.row(t, &l.LockSummary, l.state(), nil, waiting)
		}
		for h := range l.Holders {
			v.row(t, &l.LockSummary, stateOf(&l.Holders[h]), &l.Holders[h], waiting)
		}
	}
	return t.writeTo(v.out)
}

func waitersOf(info *fairlock.LockInfo) int64 { return int64(len(info.Waiters)) + info.More }

// queue prints one lock: its holders as in the list, then who waits, in order.
func (v view) queue(info *fairlock.LockInfo) error {
	s := &fairlock.LockSummary{
		Name: info.Name, Kind: info.Kind, Permits: info.Permits, LastToken: info.LastToken, IdleSince: info.IdleSince,
	}
	t := v.newTable("NAME", "STATE", "HOLDER", "TOKEN", "HELD", "TTL-LEFT", "QUEUE")
	waiting := strconv.FormatInt(waitersOf(info), 10)
	if len(info.Holders) == 0 {
		state := "free"
		if len(info.Waiters) > 0 {
			state = "waiting"
		}
		v.row(t, s, state, nil, waiting)
	}
	for i := range info.Holders {
		v.row(t, s, stateOf(&info.Holders[i]), &info.Holders[i], waiting)
	}
	if err := t.writeTo(v.out); err != nil || len(info.Waiters) == 0 {
		return err
	}
	q := &table{}
	headers := []string{"PLACE", "WAITER", "TOKEN", "WAITING", "TTL-LEFT"}
	if v.wide {
		headers = append(headers, "SESSION")
	}
	q.add(headers...)
	for i := range info.Waiters {
		p := &info.Waiters[i]
		o := cmp.Or(p.Owner, &fairlock.Owner{})
		cells := []string{strconv.Itoa(p.Position), "?", strconv.FormatInt(p.Token, 10), "-", "-"}
		if p.Owner != nil {
			cells[1], cells[3], cells[4] = ownerOf(o), age(o.Age), age(o.LeaseLeft)
		}
		if v.wide {
			cells = append(cells, cmp.Or(o.Session, "-"))
		}
		q.add(cells...)
	}
	if _, err := fmt.Fprintln(v.out); err != nil {
		return err
	}
	if err := q.writeTo(v.out); err != nil || info.More == 0 {
		return err
	}
	_, err := fmt.Fprintf(v.out, "and %d more\n", info.More)
	return err
}

// stateOf is the state of a lock with that holder.
func stateOf(p *fairlock.Place) string {
	if o := p.Owner; o != nil && (o.Dead || o.LeaseLeft < 0) {
		return "expired"
	}
	return "held"
}

// ownerOf names an owner to people.
func ownerOf(o *fairlock.Owner) string {
	who := cmp.Or(o.Label, "?") + "@" + cmp.Or(o.Host, "?")
	if o.PID != 0 {
		who += ":" + strconv.Itoa(o.PID)
	}
	return who
}
