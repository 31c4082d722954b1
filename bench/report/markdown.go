package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/fairlock/fairlock/bench/run"
)

// table writes a Markdown table.
func table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(head)
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = "---"
	}
	line(rule)
	for _, r := range rows {
		line(r)
	}
	return b.String()
}

// num writes a figure with three significant digits, and whole from 1000 on. One that was not measured is a dash.
func num(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	if x >= 1000 || x <= -1000 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// Markdown is the whole report.
func (r Fairlock) Markdown() string {
	var b strings.Builder
	part := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n## %s\n\n%s", title, text)
		}
	}
	fmt.Fprintf(&b, "# fairlock measured\n\n%s", r.Machine.Markdown())
	part("Targets", targetTable(r.Targets()))
	part("On a quiet machine", r.quietTable())
	part("Processes that contend for one lock", MatrixTables(r.Rows))
	part("What an acquisition takes", fairlockTable(r.Rows))
	part("Semaphore", r.semaphoreTable())
	part("Blocked", IdleTable(r.Idle)+r.crowdText())
	part("Recipes", MatrixTables(r.Recipes))
	return b.String()
}

func targetTable(targets []Target) string {
	if len(targets) == 0 {
		return ""
	}
	var rows [][]string
	for _, t := range targets {
		sign, met := "<=", "no"
		if t.Least {
			sign = ">="
		}
		if t.Met() {
			met = "yes"
		}
		value := "-" // four digits, since a target can be missed by a little
		if !math.IsNaN(t.Value) {
			value = fmt.Sprintf("%.4g", t.Value)
		}
		rows = append(rows, []string{t.What, value, sign + " " + num(t.Limit), met})
	}
	return table([]string{"figure", "value", "target", "met"}, rows)
}

func (r Fairlock) semaphoreTable() string {
	s := r.Semaphore
	if s == nil {
		return ""
	}
	var rows [][]string
	for _, row := range []run.Row{s.Mutex, s.Shared} {
		rows = append(rows, []string{row.Kind, num(float64(row.N)), num(row.HoldMS), num(row.PerSecond), num(row.PerFloor()), num(row.Wait.P50),
			num(row.Commands), num(row.ServerCPU), num(row.ClientCPU), num(row.Busy)})
	}
	return table([]string{"lock", "processes", "hold ms", "acq/s", "acq/s x floor", "wait p50 ms", "commands", "server CPU ms", "client CPU ms", "cores"}, rows)
}

func (r Fairlock) quietTable() string {
	var rows [][]string
	if a := r.Pair; a != nil {
		rows = append(rows, []string{"Lock + Unlock, uncontended", num(a.Got.P50), num(a.Got.P99), num(a.Floor.P50), num(a.Floor.P99),
			num(a.P50()), num(a.P99())})
	}
	if a := r.HandOff; a != nil {
		rows = append(rows, []string{"hand-off between two processes", num(a.Got.P50), num(a.Got.P99), num(a.Floor.P50), num(a.Floor.P99),
			num(a.P50()), num(a.P99())})
	}
	if c := r.Combine; c != nil {
		each := 1000 / c.PerSecond
		rows = append(rows, []string{fmt.Sprintf("one of %d goroutines after another", c.Goroutines), num(each), "", num(c.Floor.P50), num(c.Floor.P99),
			num(1 / c.PerFloor()), ""})
	}
	if len(rows) == 0 {
		return ""
	}
	return table([]string{"", "p50 ms", "p99 ms", "floor p50 ms", "floor p99 ms", "p50 / floor", "p99 / floor"}, rows)
}

// MatrixTables are the tables of runs of any kinds: speed, fairness, cost.
func MatrixTables(rows []run.Row) string {
	if len(rows) == 0 {
		return ""
	}
	var speed, order, cost [][]string
	for _, r := range rows {
		key := []string{num(float64(r.N)), num(r.HoldMS), r.Kind}
		floor, per, p50, p99 := "", "", "", ""
		if r.Floor.N > 0 {
			floor = num(r.Floor.P50) + " / " + num(r.Floor.P99)
			per, p50, p99 = num(r.PerFloor()), num(r.HandOffP50()), num(r.HandOffP99())
		}
		speed = append(speed, append(key[:3:3], num(r.PerSecond), per, num(r.HandOff.P50)+" / "+num(r.HandOff.P99),
			num(r.ToAnother.P50)+" / "+num(r.ToAnother.P99), num(100*r.OtherShare), p50, p99, floor))
		order = append(order, append(key[:3:3], num(r.Wait.P50), num(r.Wait.P99), num(r.Wait.Max), num(r.Oldest), num(r.LongestWait()),
			num(float64(r.Inversions)), num(perGrant(r.Overtaken, r.Grants)), fmt.Sprintf("%.3f (%.3f)", r.Jain, r.JainBest),
			num(float64(r.Unserved)), fmt.Sprintf("%d / %d", r.Overlaps, r.Disorder)))
		cost = append(cost, append(key[:3:3], num(r.ServerOps), num(r.Commands), num(r.ServerCPU), num(r.ClientCPU), num(r.Busy)))
	}
	key := []string{"processes", "hold ms", "lock"}
	return table(append(key[:3:3], "acq/s", "acq/s x floor", "hand-off p50 / p99 ms", "to another p50 / p99 ms", "goes to another %",
		"to another p50 / floor", "p99 / floor", "floor p50 / p99 ms"), speed) +
		"\n" + table(append(key[:3:3], "wait p50 ms", "p99", "max", "oldest unserved", "longest / p50", "inversions", "overtaken per grant",
		"Jain (best possible)", "unserved", "overlaps / tokens out of order"), order) +
		"\nEach acquisition:\n\n" + table(append(key[:3:3], "server operations", "commands of clients", "server CPU ms", "client CPU ms",
		"cores busy"), cost)
}

func perGrant(n, grants int) float64 {
	if grants == 0 {
		return 0
	}
	return float64(n) / float64(grants)
}

// fairlockTable is what a fairlock contender counts, for each acquisition.
func fairlockTable(rows []run.Row) string {
	if len(rows) == 0 {
		return ""
	}
	columns := []string{"writes_locks", "enqueues", "settles", "tickets_written", "tickets_deleted", "events", "reads", "streams_opened",
		"grants_by_event", "grants_by_opening", "grants_by_doze", "overslept", "grants_by_recheck", "cmd_getMore", "cmd_aggregate", "cmd_find", "cmd_killCursors", "cmd_ping"}
	head := []string{"processes", "hold ms"}
	for _, c := range columns {
		head = append(head, strings.ReplaceAll(strings.TrimPrefix(c, "cmd_"), "_", " "))
	}
	var out [][]string
	for _, r := range rows {
		cells := []string{num(float64(r.N)), num(r.HoldMS)}
		for _, c := range columns {
			cells = append(cells, num(r.Other[c]))
		}
		out = append(out, cells)
	}
	return table(head, out)
}

// IdleTable is what blocked contenders cost.
func IdleTable(idles []run.Idle) string {
	if len(idles) == 0 {
		return ""
	}
	var rows [][]string
	for _, i := range idles {
		for _, c := range []struct {
			mode string
			run.IdleCost
		}{{"connected", i.Connected}, {"blocked", i.Blocked}} {
			rows = append(rows, []string{i.Kind, num(float64(i.N)), c.mode, num(c.Seconds), num(c.Servers), num(c.Primary), num(c.Clients),
				num(c.Ops), num(c.Commands)})
		}
	}
	var counted strings.Builder
	for _, i := range idles {
		var parts []string
		for _, name := range sortedKeys(i.Blocked.Other) {
			parts = append(parts, strings.ReplaceAll(strings.TrimPrefix(name, "cmd_"), "_", " ")+" "+num(i.Blocked.Other[name]))
		}
		if len(parts) > 0 {
			fmt.Fprintf(&counted, "\n%s, blocked, a second of all: %s.\n", i.Kind, strings.Join(parts, ", "))
		}
	}
	return table([]string{"lock", "processes", "", "seconds", "servers CPU % of a core", "primary", "clients", "server operations/s",
		"commands of clients/s"}, rows) + counted.String()
}

func (r Fairlock) crowdText() string {
	c := r.Crowd
	if c == nil {
		return ""
	}
	return fmt.Sprintf("\n%d goroutines of one process, blocked for %s s: %s %% of a core, %s server operations/s (%s with nobody waiting); %d bytes for each waiter "+
		"beyond its goroutine (%d of them heap objects; %d by spans in use; a bare goroutine has %d).\n",
		c.Waiters, num(c.WindowInSec), num(c.CPU), num(c.Ops), num(c.OpsWithout), c.Bytes, c.HeapBytes, c.BytesInUse, c.BareBytes)
}
