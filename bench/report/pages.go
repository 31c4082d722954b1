package report

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/fairlock/fairlock/bench/run"
)

// Plots writes handoff.svg, throughput.svg, order.svg and cost.svg of runs of one hold time. Of a single kind they show all that was
// measured, with the floor; several kinds, eight at most, are compared, each with the colour of its place among them.
func Plots(dir string, rows []run.Row) error {
	var kinds []string
	byKind := map[string][]run.Row{}
	for _, r := range rows {
		if !slices.Contains(kinds, r.Kind) {
			kinds = append(kinds, r.Kind)
		}
		byKind[r.Kind] = append(byKind[r.Kind], r)
	}
	if len(kinds) > len(palette) {
		return fmt.Errorf("report: %d kinds in one plot: more than %d cannot be told apart", len(kinds), len(palette))
	}
	for _, k := range kinds {
		slices.SortStableFunc(byKind[k], func(a, b run.Row) int { return cmp.Compare(a.N, b.N) })
	}
	pages := comparison
	if len(kinds) == 1 {
		pages = alone
	}
	all, err := pages(kinds, byKind)
	if err != nil {
		return err
	}
	for name, panels := range all {
		err = errors.Join(err, save(filepath.Join(dir, name), panels...))
	}
	return errors.Join(err, order(filepath.Join(dir, "order.svg"), byKind, kinds))
}

func handOff50(r run.Row) float64 { return r.ToAnother.P50 }
func handOff99(r run.Row) float64 { return r.ToAnother.P99 }
func perSecond(r run.Row) float64 { return r.PerSecond }
func serverCPU(r run.Row) float64 { return r.ServerCPU }
func serverOps(r run.Row) float64 { return r.ServerOps }

const throughput = "Acquisitions of one lock, held for no time"

// comparison is a line for each kind.
func comparison(kinds []string, byKind map[string][]run.Row) (map[string][]*panel, error) {
	var errs []error
	lines := func(title, y string, of func(run.Row) float64) *panel {
		var all []Series
		for _, k := range kinds {
			all = append(all, over(byKind[k], k, of))
		}
		p, err := chart(title, y+" (log scale)", true, all...)
		errs = append(errs, err)
		return p
	}
	return map[string][]*panel{
		"handoff.svg": {
			lines("Hand-off to another process, median", "ms", handOff50),
			lines("Hand-off to another process, 99th percentile", "ms", handOff99),
		},
		"throughput.svg": {lines(throughput, "acquisitions/s", perSecond)},
		"cost.svg": {
			lines("CPU of the servers for one acquisition", "ms", serverCPU),
			lines("Operations of the servers for one acquisition", "operations", serverOps),
		},
	}, errors.Join(errs...)
}

// alone is all of one kind.
func alone(kinds []string, byKind map[string][]run.Row) (map[string][]*panel, error) {
	rows := byKind[kinds[0]]
	floor := func(name string, of func(run.Row) float64) Series {
		floors := slices.DeleteFunc(slices.Clone(rows), func(r run.Row) bool { return r.Floor.N == 0 })
		s := over(floors, name, of)
		s.Dashed = true
		return s
	}
	hand, err1 := chart("Hand-off to another process", "ms (log scale)", true,
		over(rows, "p50", handOff50), over(rows, "p99", handOff99),
		floor("floor, p50", func(r run.Row) float64 { return r.Floor.P50 }))
	speed, err2 := chart(throughput, "acquisitions/s", false, over(rows, kinds[0], perSecond),
		floor("1 / floor p50", func(r run.Row) float64 { return 1000 / r.Floor.P50 }))
	cost, err3 := chart("CPU of one acquisition", "ms", false, over(rows, "servers", serverCPU),
		over(rows, "clients", func(r run.Row) float64 { return r.ClientCPU }))
	ops, err4 := chart("Operations of one acquisition", "operations", false, over(rows, "server operations", serverOps),
		over(rows, "commands of clients", func(r run.Row) float64 { return r.Commands }))
	return map[string][]*panel{"handoff.svg": {hand}, "throughput.svg": {speed}, "cost.svg": {cost, ops}},
		errors.Join(err1, err2, err3, err4)
}

// order plots the rank of grants by arrival against their rank by grant, of the run with 32 processes or else the largest. Each kind has
// a plot of its own: points of several would hide each other.
func order(path string, byKind map[string][]run.Row, kinds []string) error {
	var plots []*plot.Plot
	for i, k := range kinds {
		ordered := slices.DeleteFunc(slices.Clone(byKind[k]), func(r run.Row) bool { return len(r.Order) == 0 })
		if len(ordered) == 0 {
			continue
		}
		row := ordered[len(ordered)-1]
		if at := slices.IndexFunc(ordered, func(r run.Row) bool { return r.N == 32 }); at >= 0 {
			row = ordered[at]
		}
		points := make(plotter.XYs, len(row.Order))
		for grant, arrival := range row.Order {
			points[grant] = plotter.XY{X: float64(arrival + 1), Y: float64(grant + 1)}
		}
		s, err := plotter.NewScatter(points)
		if err != nil {
			return err
		}
		s.Color, s.Shape, s.Radius = palette[i], draw.CircleGlyph{}, vg.Points(1.5)
		p := plot.New()
		p.Title.Text = k
		p.Title.Padding = vg.Points(4)
		p.X.Label.Text, p.Y.Label.Text = fmt.Sprintf("rank by arrival, n = %d", row.N), "rank by grant"
		p.X.Min, p.Y.Min = 0, 0
		p.X.Tick.Marker, p.Y.Tick.Marker = plain{}, plain{}
		p.Add(grid(), s)
		plots = append(plots, p)
	}
	if len(plots) == 0 {
		return nil
	}
	columns := min(len(plots), 4)
	rows := (len(plots) + columns - 1) / columns
	side := panelHeight
	if len(plots) > 1 {
		side = 7.5 * vg.Centimeter
	}
	return paint(path, side*vg.Length(columns), side*vg.Length(rows), func(c draw.Canvas) {
		tiles := draw.Tiles{Cols: columns, Rows: rows, PadX: margin, PadY: margin,
			PadTop: margin, PadBottom: margin, PadLeft: margin, PadRight: margin}
		for i, p := range plots {
			p.Draw(tiles.At(c, i%columns, i/columns))
		}
	})
}

const margin = vg.Length(10)

// save writes plots, one below another, as one file. Of plots that are nil it writes none.
func save(path string, panels ...*panel) error {
	panels = slices.DeleteFunc(panels, func(p *panel) bool { return p == nil })
	if len(panels) == 0 {
		return nil
	}
	var beside vg.Length // as wide as the widest legend needs, and a fifth more for a viewer whose font is wider
	sizing := draw.New(vgsvg.New(panelWidth, panelHeight))
	for _, p := range panels {
		r := p.legend.Rectangle(sizing)
		beside = max(beside, 1.2*(r.Max.X-r.Min.X))
	}
	height := panelHeight * vg.Length(len(panels))
	return paint(path, panelWidth+beside+margin, height, func(c draw.Canvas) {
		for i, p := range panels {
			bottom := height - panelHeight*vg.Length(i+1)
			area := draw.Crop(c, margin, -margin, bottom+margin, -(height-bottom-panelHeight)-margin)
			p.Draw(draw.Crop(area, 0, -beside-margin, 0, 0))
			p.legend.Draw(draw.Crop(area, area.Max.X-area.Min.X-beside, 0, 0, -2*margin))
		}
	})
}

// paint writes an SVG file with a white ground.
func paint(path string, width, height vg.Length, draws func(draw.Canvas)) error {
	c := vgsvg.New(width, height)
	dc := draw.New(c)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	draws(dc)
	var text bytes.Buffer
	if _, err := c.WriteTo(&text); err != nil {
		return err
	}
	// The library names one font only. The others have its widths, or nearly.
	return os.WriteFile(path, bytes.ReplaceAll(text.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:Liberation Sans,Arimo,Helvetica,Arial,sans-serif;")), 0o644)
}
