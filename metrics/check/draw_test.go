package check

import (
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

var out = flag.String("out", "", "file for the drawing of the dashboard")

// curve is one series of a panel.
type curve struct {
	legend string
	points []promql.FPoint
}

// TestPanelsShowSomething: each query of each panel brings data under load. With -out it draws what a person would see, one page of HTML.
func TestPanelsShowSomething(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("../dashboard.json")
	require.NoError(t, err)
	var board struct{ Panels []panel }
	require.NoError(t, json.Unmarshal(src, &board))
	all, began := underLoad(t)
	p := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: p})
	defer func() { require.NoError(t, engine.Close()) }()
	from, to := began.Add(2*scrape), began.Add(loadFor)
	var page strings.Builder
	page.WriteString(`<!doctype html><meta charset=utf-8><title>fairlock</title><style>body{font:12px sans-serif;width:1480px;background:#fff}
.p{display:inline-block;vertical-align:top;border:1px solid #ccc;margin:3px;padding:6px}h2{margin:8px 4px 2px}b{font-size:13px}.d{color:#666;max-width:100%}</style>`)
	for _, panel := range board.Panels {
		if panel.Type == "row" {
			fmt.Fprintf(&page, "<h2>%s</h2>", html.EscapeString(panel.Title))
			continue
		}
		var curves []curve
		for _, target := range panel.Targets {
			query := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*").Replace(target.Expr)
			q, err := engine.NewRangeQuery(t.Context(), all, nil, query, from, to, scrape)
			require.NoError(t, err, query)
			got := q.Exec(t.Context())
			require.NoError(t, got.Err, query)
			m, err := got.Matrix()
			require.NoError(t, err)
			found := false
			for _, s := range m {
				c := curve{legend: regexp.MustCompile(`\{\{(\w+)\}\}`).ReplaceAllStringFunc(target.LegendFormat, func(l string) string {
					return s.Metric.Get(strings.Trim(l, "{}"))
				})}
				for _, at := range s.Floats {
					if !math.IsNaN(at.F) {
						c.points = append(c.points, at)
					}
				}
				found = found || len(c.points) > 0
				curves = append(curves, c)
			}
			require.True(t, found, "panel %q: no data for %s", panel.Title, query)
			q.Close()
		}
		slices.SortStableFunc(curves, func(a, b curve) int { return strings.Compare(a.legend, b.legend) })
		width := panel.GridPos.W * 57
		fmt.Fprintf(&page, `<div class=p style="width:%dpx"><b>%s</b> [%s]<div class=d>%s</div>`, width-8, html.EscapeString(panel.Title),
			panel.FieldConfig.Defaults.Unit, html.EscapeString(panel.Description))
		if panel.Type == "stat" {
			last := curves[0].points[len(curves[0].points)-1].F
			fmt.Fprintf(&page, `<div style="font-size:28px">%s</div></div>`, amount(last, panel.FieldConfig.Defaults.Unit))
			continue
		}
		page.WriteString(chart(curves, &panel, width-20, 150, from, to) + "</div>")
	}
	if *out != "" {
		require.NoError(t, os.WriteFile(*out, []byte(page.String()), 0o644))
	}
}

// amount is a value in its unit, as Grafana writes them.
func amount(v float64, unit string) string {
	switch {
	case unit == "s" && v < 1:
		return fmt.Sprintf("%.3g ms", v*1000)
	case unit == "s":
		return fmt.Sprintf("%.3g s", v)
	case unit == "ops":
		return fmt.Sprintf("%.3g /s", v)
	}
	return fmt.Sprintf("%.3g", v)
}

var colours = []string{"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#17becf"}

// chart is lines with axes and a legend.
func chart(curves []curve, p *panel, w, h int, from, to time.Time) string {
	unit, log := p.FieldConfig.Defaults.Unit, p.FieldConfig.Defaults.Custom.ScaleDistribution.Type == "log"
	top, low := 0.0, math.Inf(1)
	for _, c := range curves {
		for _, at := range c.points {
			top = max(top, at.F)
			if at.F > 0 {
				low = min(low, at.F)
			}
		}
	}
	if top == 0 {
		top, low = 1, 1
	}
	low = math.Pow(10, math.Floor(math.Log10(low)))
	const left = 60
	x := func(ms int64) float64 {
		return left + float64(ms-from.UnixMilli())/float64(to.Sub(from).Milliseconds())*float64(w-left)
	}
	y := func(v float64) float64 {
		part := v / top
		if log {
			part = max(math.Log(v/low)/math.Log(top/low), 0)
		}
		return float64(h) - 18 - part*float64(h-28)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg width=%d height=%d>`, w, h)
	for i := range 5 {
		v := top * float64(i) / 4
		if log {
			v = low * math.Pow(top/low, float64(i)/4)
		}
		fmt.Fprintf(&b, `<line x1=%d x2=%d y1=%.0f y2=%.0f stroke="#eee"/><text x=%d y=%.0f text-anchor=end fill="#666">%s</text>`,
			left, w, y(v), y(v), left-4, y(v)+4, amount(v, unit))
	}
	for at := from.Truncate(5 * time.Minute).Add(5 * time.Minute); at.Before(to); at = at.Add(5 * time.Minute) {
		fmt.Fprintf(&b, `<text x=%.0f y=%d text-anchor=middle fill="#666">%v</text>`, x(at.UnixMilli()), h-3, at.Format("15:04"))
	}
	for i, c := range curves {
		var path strings.Builder
		for j, at := range c.points {
			move := "L"
			if j == 0 || at.T-c.points[j-1].T > scrape.Milliseconds() {
				move = "M" // a gap
			}
			fmt.Fprintf(&path, "%s%.1f,%.1f", move, x(at.T), y(at.F))
		}
		fmt.Fprintf(&b, `<path d="%s" fill=none stroke="%s" stroke-width=1.3 />`, path.String(), colours[i%len(colours)])
	}
	b.WriteString("</svg><div>")
	for i, c := range curves {
		fmt.Fprintf(&b, `<span style="color:%s">&#9644;</span> %s &nbsp;`, colours[i%len(colours)], html.EscapeString(c.legend))
	}
	return b.String() + "</div>"
}
