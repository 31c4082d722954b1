package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/queue"
)

const queueLong = `queue shows the line of one lock: who holds it, then who waits, in the order in which they will get it.

  PLACE       - for holders, from 1 for those who wait
  STATE       held, waits; expired: its lease is over, and it is about to be cleared
  UNITS       how many it holds or waits for (semaphore)
  TOKEN       the fencing token, which is also what "release --force" wants
  AGE         time since the place was taken
  HELD        time since it was admitted (holder of a mutex)
  LEASE-LEFT  time until its lease is over unless it is renewed

Then come the newest request to give the lock back, and what was unlocked by force, oldest first. A place younger than a
second shows ? in place of its owner.

JSON has name, kind, permits, managed (set by "permits"), holders, waiters, more (how many numbers stand behind them), lastToken,
idleSince, request (by, at, upTo) and forced (token, session, by, reason, at). A place has token, position, units and, unless it is too
young, owner: session, host, pid, label, age, held, leaseLeft and dead. Lengths of time are in nanoseconds. What is not there, or
false, may be left out.

Exit code 3: there is no lock NAME.`

func newQueueCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "queue [flags] NAME",
		Short: "Show the line of one lock",
		Long:  queueLong,
		Example: "  fairlock queue nightly-backup\n" +
			"  fairlock queue nightly-backup --json | jq -r '.holders[0].token'",
		Args:                  oneName,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return sharedOf(cmd).use(fairlock.Config{}, func(ctx context.Context, m *opened) error {
				info, err := m.Inspect(ctx, args[0])
				if err != nil {
					return err
				}
				v := view{out: cmd.OutOrStdout()}
				if asJSON {
					return v.json(info)
				}
				return v.line(info)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// oneName is the argument of commands on one lock.
func oneName(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usagef(cmd, "NAME is missing")
	case len(args) > 1:
		return usagef(cmd, "unexpected argument %q after NAME %q", args[1], args[0])
	}
	if err := fairlock.ValidateName(args[0]); err != nil {
		return usagef(cmd, "%w", err)
	}
	return nil
}

// line prints everything that is known of one lock.
func (v view) line(info *fairlock.LockInfo) error {
	headers := []string{"PLACE", "STATE", "LABEL", "HOST", "PID", "TOKEN", "AGE", "HELD", "LEASE-LEFT"}
	units := info.Kind == string(queue.KindSemaphore)
	if units {
		headers = slices.Insert(headers, unitsColumn, "UNITS")
	}
	t := v.stateTable(headers...)
	add := func(cells []string, n string) {
		if units {
			cells = slices.Insert(cells, unitsColumn, n)
		}
		t.add(cells...)
	}
	place := func(place, state string, p *fairlock.Place) {
		add(placeCells(place, state, p), strconv.FormatInt(p.Units, 10))
	}
	for i := range info.Holders {
		place("-", stateOf(&info.Holders[i]), &info.Holders[i])
	}
	for i := range info.Waiters {
		p := &info.Waiters[i]
		state := "waits"
		if stateOf(p) == "expired" {
			state = "expired"
		}
		place(strconv.Itoa(p.Position), state, p)
	}
	if len(info.Holders)+len(info.Waiters) == 0 {
		add([]string{"-", "free", "-", "-", "-", "-", "-", "-", "-"}, "-")
	}
	shape := info.Kind
	if info.Permits > 1 || info.Managed {
		shape += ", permits " + strconv.FormatInt(info.Permits, 10)
	}
	if info.Managed {
		shape += ` (set by "permits")`
	}
	if _, err := fmt.Fprintf(v.out, "%s: %s, last token %d\n\n", safe(info.Name), safe(shape), info.LastToken); err != nil {
		return err
	}
	if err := t.writeTo(v.out); err != nil {
		return err
	}
	if info.More > 0 {
		if _, err := fmt.Fprintf(v.out, "and %d more\n", info.More); err != nil {
			return err
		}
	}
	return v.acts(info)
}

// unitsColumn is where UNITS stands, before TOKEN.
const unitsColumn = 5

// placeCells is a place without its units.
func placeCells(place, state string, p *fairlock.Place) []string {
	label, host, pid, old, held, left := "?", "?", "?", "-", "-", "-"
	if o := p.Owner; o != nil {
		label, host, old, left = cmp.Or(o.Label, "?"), cmp.Or(o.Host, "?"), age(o.Age), age(o.LeaseLeft)
		if o.PID != 0 {
			pid = strconv.Itoa(o.PID)
		}
		if o.Held > 0 {
			held = age(o.Held)
		}
	}
	return []string{place, state, label, host, pid, strconv.FormatInt(p.Token, 10), old, held, left}
}

// acts prints what operators have done.
func (v view) acts(info *fairlock.LockInfo) error {
	if r := info.Request; r != nil {
		_, err := fmt.Fprintf(v.out, "\nasked back at %s by %s: holders with tokens up to %d\n", stamp(r.At), safe(r.By), r.UpTo)
		if err != nil {
			return err
		}
	}
	if len(info.Forced) == 0 {
		return nil
	}
	t := &table{}
	t.add("FORCED-AT", "TOKEN", "BY", "REASON", "SESSION")
	for _, f := range info.Forced {
		t.add(stamp(f.At), strconv.FormatInt(f.Token, 10), f.By, f.Reason, f.Session)
	}
	if _, err := fmt.Fprintln(v.out); err != nil {
		return err
	}
	return t.writeTo(v.out)
}

// stamp is a moment by the server's clock.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
