package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/bench/report"
	"github.com/fairlock/fairlock/bench/run"
)

// Results is peers.json.
type Results struct {
	Machine report.Machine `json:"machine"` // of the newest run; its Servers are those of all
	Rows    []Row          `json:"runs"`
	Idle    []Idle         `json:"idle"`
	NotRun  []NotRun       `json:"not_run"`
}

// Row is a run with its date, since the rows need not be of one day.
type Row struct {
	Date string `json:"date"`
	run.Row
}

// Idle is an idle measurement with its date.
type Idle struct {
	Date   string  `json:"date"`
	Window float64 `json:"window_s"`
	run.Idle
}

// NotRun is what was to be measured and was not.
type NotRun struct {
	Kind   string  `json:"kind"`
	N      int     `json:"contenders"`
	HoldMS float64 `json:"hold_ms"`
	Idle   bool    `json:"idle,omitempty"`
	Why    string  `json:"why"`
}

// load reads what was measured before; nothing is not an error.
func load(dir string) (*Results, error) {
	r := &Results{}
	path := filepath.Join(dir, "peers.json")
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	versions := r.Machine.Servers
	if versions == nil {
		versions = map[string]string{}
	}
	r.Machine = report.ThisMachine(versions)
	return r, nil
}

func (r *Results) version(s run.Server) {
	if v, ok := s.(interface{ Version() string }); ok {
		r.Machine.Servers[s.Name()] = v.Version()
	}
}

// has reports whether a task has been done with windows of the same length.
func (r *Results) has(t task, o options) bool {
	if t.idle {
		return slices.ContainsFunc(r.Idle, func(i Idle) bool {
			return i.Kind == t.Kind && i.N == t.n && i.Window == o.idle.Seconds()
		})
	}
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return t.made(row.Row) && row.Window == run.WindowFor(t.n, o.window).Seconds() })
}

// made reports whether a run is one of the task.
func (t task) made(row run.Row) bool {
	return row.Kind == t.Kind && row.N == t.n && row.HoldMS == millis(t.hold)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// forget removes what is known of a task.
func (r *Results) forget(t task) {
	r.NotRun = slices.DeleteFunc(r.NotRun, func(o NotRun) bool {
		return o.Kind == t.Kind && o.N == t.n && o.HoldMS == millis(t.hold) && o.Idle == t.idle
	})
	if t.idle {
		r.Idle = slices.DeleteFunc(r.Idle, func(o Idle) bool { return o.Kind == t.Kind && o.N == t.n })
		return
	}
	r.Rows = slices.DeleteFunc(r.Rows, func(o Row) bool { return t.made(o.Row) })
}

// ordered is the number of processes of which the order of grants is kept.
const ordered = 32

// add keeps a run, without its records, which are large. It must have been forgotten, as addIdle and notRun.
func (r *Results) add(row run.Row) {
	row.Records = nil
	if row.N != ordered || row.HoldMS != 0 {
		row.Order = nil
	}
	r.Rows = append(r.Rows, Row{now(), row})
}

func (r *Results) addIdle(i run.Idle, window time.Duration) {
	r.Idle = append(r.Idle, Idle{now(), window.Seconds(), i})
}

func (r *Results) notRun(t task, why error) {
	r.NotRun = append(r.NotRun, NotRun{Kind: t.Kind, N: t.n, HoldMS: millis(t.hold), Idle: t.idle, Why: reason(why)})
}

// address is what errors name of other machines: which those are is this machine's affair.
var address = regexp.MustCompile(`[a-z]+://[^\s"]*[^\s":;,)]|(lookup|[Uu]nknown host) [^\s:]+( on [^\s]+\d)?|\d+(\.\d+){3}(:\d+)?`)

// reason is an error as one line for the results.
func reason(err error) string {
	const most = 400
	text := address.ReplaceAllString(strings.Join(strings.Fields(err.Error()), " "), "(address)")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// kindNames are those of all contestants in the order of the tables: fairlock first, then by server.
func kindNames() (names []string) {
	for _, c := range contestants() {
		names = append(names, c.Kind)
	}
	return names
}

// sort puts all in the order of the tables: by hold time, size, and contestant.
func (r *Results) sort() {
	rank := map[string]int{}
	for i, kind := range kindNames() {
		rank[kind] = i
	}
	slices.SortStableFunc(r.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.HoldMS, b.HoldMS), cmp.Compare(a.N, b.N), cmp.Compare(rank[a.Kind], rank[b.Kind]))
	})
	slices.SortStableFunc(r.Idle, func(a, b Idle) int { return cmp.Compare(rank[a.Kind], rank[b.Kind]) })
	slices.SortStableFunc(r.NotRun, func(a, b NotRun) int {
		return cmp.Or(cmp.Compare(rank[a.Kind], rank[b.Kind]), cmp.Compare(a.HoldMS, b.HoldMS), cmp.Compare(a.N, b.N))
	})
}

// save writes peers.json.
func (r *Results) save(dir string) error {
	r.sort()
	return report.WriteJSON(filepath.Join(dir, "peers.json"), r)
}

// write writes everything.
func (r *Results) write(dir string) error {
	plots := filepath.Join(dir, "peers")
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return err
	}
	err := errors.Join(r.save(dir), os.WriteFile(filepath.Join(dir, "peers.md"), []byte(r.Markdown()), 0o644))
	var rows []run.Row
	for _, row := range r.Rows {
		if row.HoldMS == 0 && row.Grants > 0 {
			rows = append(rows, row.Row)
		}
	}
	kinds := report.Plotted(rows)
	rows = slices.DeleteFunc(rows, func(row run.Row) bool { return !slices.Contains(kinds, row.Kind) })
	// In the order of the kinds, which gives them their colours.
	slices.SortStableFunc(rows, func(a, b run.Row) int {
		return cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind))
	})
	if len(rows) > 0 {
		err = errors.Join(err, report.Plots(plots, rows))
	}
	return err
}

// Markdown is peers.md.
func (r *Results) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Lock libraries side by side\n\n%s\n%s", r.Machine.Markdown(), preface)
	var rows []run.Row
	var dates []string
	for _, row := range r.Rows {
		rows, dates = append(rows, row.Row), append(dates, row.Date)
	}
	var idles []run.Idle
	for _, i := range r.Idle {
		idles, dates = append(idles, i.Idle), append(dates, i.Date)
	}
	if len(dates) > 0 {
		fmt.Fprintf(&b, "\nMeasured from %s to %s.\n", slices.Min(dates), slices.Max(dates))
	}
	fmt.Fprintf(&b, "\n## Contended\n\n%s\n## Idle\n\n%s\n## Not run\n\n%s", report.MatrixTables(rows), report.IdleTable(idles), r.notRunTable())
	if polling := report.PollingTable(rows); polling != "" {
		fmt.Fprintf(&b, "\n## Polling against the queue\n\n%s", polling)
	}
	if known := report.KnowTables(kindNames(), rows, r.why); known != "" {
		fmt.Fprintf(&b, "\n## What a reader wants to know\n\nThe lock is held for no time. %s", known)
	}
	return b.String()
}

// why is the reason why a kind was not run with n processes and a hold of 0, "" if none is known.
func (r *Results) why(kind string, n int) string {
	for _, o := range r.NotRun {
		if o.Kind == kind && o.N == n && o.HoldMS == 0 && !o.Idle {
			return cell(o.Why)
		}
	}
	return ""
}

func (r *Results) notRunTable() string {
	if len(r.NotRun) == 0 {
		return "Everything was run.\n"
	}
	var b strings.Builder
	b.WriteString("| lock | processes | hold ms | why |\n| --- | --- | --- | --- |\n")
	for _, n := range r.NotRun {
		hold := fmt.Sprint(n.HoldMS)
		if n.Idle {
			hold = "blocked"
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s |\n", n.Kind, n.N, hold, cell(n.Why))
	}
	return b.String()
}

// cell makes a line fit into a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
