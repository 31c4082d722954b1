package report

import (
	"cmp"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/fairlock/fairlock/bench/run"
)

// Plots are SVG files with a white ground of their own, so that they read the same on a page of any colour. The colours are those of
// Okabe and Ito, which people with colour blindness tell apart; lines differ by their points as well.
var palette = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{204, 121, 167, 255},
	color.RGBA{86, 180, 233, 255}, color.RGBA{230, 159, 0, 255}, color.RGBA{90, 90, 90, 255}, color.RGBA{148, 103, 40, 255},
}

var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{},
}

const (
	panelWidth  = 16 * vg.Centimeter
	panelHeight = 10 * vg.Centimeter
)

func init() { plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"} }

// Series is a line of a plot.
type Series struct {
	Name   string
	Points plotter.XYs
	Dashed bool // a yardstick and no measurement of the thing itself
}

// panel is a plot with its legend, which is beside it: inside it would cover lines.
type panel struct {
	*plot.Plot
	legend plot.Legend
}

// chart makes a plot of lines over the number of processes; nil if there is no point. The legend is in the order in which the lines end.
func chart(title, y string, logY bool, series ...Series) (*panel, error) {
	p := &panel{Plot: plot.New(), legend: plot.NewLegend()}
	p.Title.Text = title
	p.Title.Padding = vg.Points(6)
	p.X.Label.Text = "processes that contend for one lock (log scale)"
	p.Y.Label.Text = y
	p.legend.Top, p.legend.Left = true, true
	p.legend.Padding = vg.Points(3)
	p.legend.ThumbnailWidth = vg.Points(24)
	p.Add(grid())
	type ended struct {
		last  plotter.XY
		name  string
		thumb []plot.Thumbnailer
	}
	var ends []ended
	var drawn [][]plot.Plotter
	at := map[float64]bool{}
	for i, s := range series {
		if logY {
			s.Points = logarithms(s.Points)
		}
		if len(s.Points) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(s.Points)
		if err != nil {
			return nil, err
		}
		line.Color, points.Color = palette[i%len(palette)], palette[i%len(palette)]
		line.Width = vg.Points(1.5)
		points.Radius = vg.Points(3)
		points.Shape = shapes[(i+i/len(palette))%len(shapes)]
		if s.Dashed {
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
		}
		drawn = append(drawn, []plot.Plotter{line, points})
		ends = append(ends, ended{s.Points[len(s.Points)-1], s.Name, []plot.Thumbnailer{line, points}})
		for _, xy := range s.Points {
			at[xy.X] = true
		}
	}
	if len(at) == 0 {
		return nil, nil
	}
	for _, d := range slices.Backward(drawn) { // the first on top
		p.Add(d...)
	}
	slices.SortStableFunc(ends, func(a, b ended) int { return cmp.Compare(b.last.Y, a.last.Y) })
	for _, e := range ends {
		p.legend.Add(e.name, e.thumb...)
	}
	p.X.Tick.Marker = sizes(at)
	if logY {
		p.Y.Tick.Marker = decades{}
		p.Y.Min -= 0.08
		p.Y.Max += 0.08
		return p, nil
	}
	p.Y.Tick.Marker = plain{}
	p.Y.Min = 0
	p.Y.Max *= 1.08
	return p, nil
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Horizontal.Color, g.Vertical.Color = color.Gray{225}, color.Gray{225}
	return g
}

// logarithms are points with the logarithms of their values; nothing that is 0 can be shown. A linear axis has them, as that of the sizes: on
// a logarithmic one the library takes the middle of a label for somewhere else and leaves room for it where there is none needed.
func logarithms(points plotter.XYs) (logs plotter.XYs) {
	for _, xy := range points {
		if xy.Y > 0 {
			logs = append(logs, plotter.XY{X: xy.X, Y: math.Log10(xy.Y)})
		}
	}
	return logs
}

// decades are ticks at 1, 2 and 5 times the powers of ten of an axis of logarithms, all with labels where the range is narrow enough.
type decades struct{}

func (decades) Ticks(least, most float64) (ticks []plot.Tick) {
	wide := most-least > 3
	for power := math.Floor(least); power <= most; power++ {
		for _, k := range []float64{1, 2, 5} {
			t := plot.Tick{Value: power + math.Log10(k)}
			if t.Value < least || t.Value > most {
				continue
			}
			if k == 1 || !wide {
				t.Label = label(k * math.Pow(10, power))
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// sizes are ticks at the sizes that were measured, of which the axis has the logarithms.
func sizes(at map[float64]bool) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for x := range at {
		ticks = append(ticks, plot.Tick{Value: x, Label: label(math.Exp2(x))})
	}
	slices.SortFunc(ticks, func(a, b plot.Tick) int { return cmp.Compare(a.Value, b.Value) })
	return ticks
}

// label writes a number without zeros after the point.
func label(x float64) string { return strconv.FormatFloat(math.Round(x*1000)/1000, 'f', -1, 64) }

// plain are the library's ticks with plain labels.
type plain struct{}

func (plain) Ticks(least, most float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(least, most)
	for i, t := range ticks {
		if !t.IsMinor() {
			ticks[i].Label = label(t.Value)
		}
	}
	return ticks
}

// over makes a series of the runs of one kind.
func over(rows []run.Row, name string, y func(run.Row) float64) Series {
	s := Series{Name: name}
	for _, r := range rows {
		s.Points = append(s.Points, plotter.XY{X: math.Log2(float64(r.N)), Y: y(r)})
	}
	return s
}
