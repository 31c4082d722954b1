package faults

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Result is what one run has shown. It is one line of JSON in a file of results.
type Result struct {
	Row     string    `json:"row"`
	Run     int       `json:"run"`
	Seed    uint64    `json:"seed"`
	Date    time.Time `json:"date"`
	Length  float64   `json:"length"` // seconds of the fault phase that were asked for
	Took    float64   `json:"took"`   // seconds of all
	Machine string    `json:"machine"`
	Procs   int       `json:"procs"`
	Callers int       `json:"callers"`

	Grants int     `json:"grants"`
	Rate   float64 `json:"rate"` // grants a second before the first fault
	Gate   float64 `json:"gate"`
	Void   string  `json:"void,omitempty"` // why the run proves nothing

	Recoveries []Recovery `json:"recoveries,omitempty"`
	Violations []string   `json:"violations,omitempty"`
	Notes      []string   `json:"notes,omitempty"`
	Kept       string     `json:"kept,omitempty"` // the folder of a run with violations

	Writes  int `json:"writes"` // to registers
	Refused int `json:"refused,omitempty"`
	Reads   int `json:"reads"`
	Lost    int `json:"lost,omitempty"` // losses that holders were told of
	Killed  int `json:"killed,omitempty"`

	// From Stats of the managers that ended in order.
	Requeued      int64 `json:"requeued,omitempty"`
	ByRecheck     int64 `json:"byRecheck,omitempty"`
	Streams       int64 `json:"streams,omitempty"`
	StreamsFailed int64 `json:"streamsFailed,omitempty"`
	SessionsEnded int64 `json:"sessionsEnded,omitempty"`
	OrphansBuried int64 `json:"orphansBuried,omitempty"`
}

// Recovery is how long one fault was felt; MS is -1 if it was felt to the end.
type Recovery struct {
	What  string `json:"what"`
	MS    int64  `json:"ms"`
	Bound int64  `json:"bound"`
}

// OK: the run proves something, and all was well.
func (r *Result) OK() bool { return r.Void == "" && len(r.Violations) == 0 }

// machine names what the run was on.
func machine() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s %s/%s %d cores", host, runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// ReadResults reads a file of results. A file that is missing has none. A last line that is not whole, as a killed soak leaves it, is
// left out.
func ReadResults(path string) ([]Result, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var all []Result
	in := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var r Result
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("faults: %s: line %d: %w", path, n, err)
		}
		all = append(all, r)
	}
}

// AppendResult adds a line to a file of results. What a killed soak has left of its last line is taken away first.
func AppendResult(path string, r Result) (err error) {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	whole := int64(bytes.LastIndexByte(text, '\n') + 1)
	if err := f.Truncate(whole); err != nil {
		return err
	}
	_, err = f.WriteAt(append(line, '\n'), whole)
	return err
}

// Table is results by row, as Markdown (docs/reliability.md has one): in the order of rows, and without those of which there is no result. Void runs count
// as runs, and nothing of them but violations is in the other columns.
func Table(rows []Row, results []Result) string {
	var b strings.Builder
	b.WriteString("| Fault | Runs | Void | Grants checked | Grants/s before (least) | Gate | Violations | Recovery p50 | max | Bound |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, row := range rows {
		var runs, void, grants, bad int
		least := -1.0
		var took []int64
		bound := row.Bound.Milliseconds()
		for _, r := range results {
			if r.Row != row.Name {
				continue
			}
			runs++
			bad += len(r.Violations)
			if r.Void != "" {
				void++
				continue
			}
			grants += r.Grants
			if least < 0 || r.Rate < least {
				least = r.Rate
			}
			for _, rec := range r.Recoveries {
				took = append(took, rec.MS)
				bound = max(bound, rec.Bound)
			}
		}
		if runs == 0 {
			continue
		}
		slices.SortFunc(took, func(a, b int64) int { return cmp.Compare(uint64(a), uint64(b)) }) // -1, never, is the longest
		p50, most := "–", "–"
		if len(took) > 0 {
			p50, most = seconds(took[(len(took)-1)/2]), seconds(took[len(took)-1])
		}
		limit := "–"
		if bound > 0 {
			limit = seconds(bound)
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %.0f | %.0f | %d | %s | %s | %s |\n",
			row.Name, runs, void, grants, max(least, 0), row.gate(), bad, p50, most, limit)
	}
	return b.String()
}

func seconds(ms int64) string {
	if ms < 0 {
		return "never"
	}
	return fmt.Sprintf("%.2f s", float64(ms)/1000)
}
