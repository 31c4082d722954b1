package report

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/fairlock/fairlock/bench/run"
)

// Write writes the files of a run into dir: fairlock.json and fairlock.md; latest.json, if every headline figure was measured; the
// plots, if processes were. What a run did not measure it leaves as it was.
func (r Fairlock) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := errors.Join(
		WriteJSON(filepath.Join(dir, "fairlock.json"), r),
		os.WriteFile(filepath.Join(dir, "fairlock.md"), []byte(r.Markdown()), 0o644),
	)
	if f, ok := r.Figures(); ok {
		err = errors.Join(err, WriteJSON(filepath.Join(dir, "latest.json"), f))
	}
	var rows []run.Row
	for _, row := range r.Rows {
		if row.HoldMS == 0 {
			rows = append(rows, row)
		}
	}
	if len(rows) > 0 {
		err = errors.Join(err, Plots(dir, rows))
	}
	return err
}

// WriteJSON writes v, indented. The rename leaves the old file or the new one, never a part, however the process ends.
func WriteJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	temp := path + ".new"
	if err := os.WriteFile(temp, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
