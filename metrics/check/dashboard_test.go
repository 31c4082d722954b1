package check

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// panel is what is looked at of a panel.
type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct {
		Defaults struct {
			Unit   string
			Custom struct{ ScaleDistribution struct{ Type string } }
		}
	}
}

// TestDashboard: each panel asks for metrics and labels that there are, and each metric is on a panel.
func TestDashboard(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("../dashboard.json")
	require.NoError(t, err)
	var board struct {
		Title, UID string
		Panels     []panel
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	require.NoError(t, json.Unmarshal(src, &board))
	require.Equal(t, "fairlock", board.UID)
	plain, named := catalogue(collected(t, false)), catalogue(collected(t, true))
	shown := map[string]bool{}
	seen := map[int]bool{}
	used := [100][24]bool{}
	queries := 0
	for _, p := range board.Panels {
		require.False(t, seen[p.ID], "id %d is there twice", p.ID)
		seen[p.ID] = true
		require.NotEmpty(t, p.Title)
		for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				require.False(t, used[y][x], "%s lies over another panel", p.Title)
				used[y][x] = true
			}
		}
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Description, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, q := range p.Targets {
			queries++
			names, err := judge(plain, named, q.Expr)
			require.NoError(t, err, "%s: %s", p.Title, q.Expr)
			for _, name := range names {
				shown[name] = true
			}
			for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(q.LegendFormat, -1) {
				require.Regexp(t, `by \([^)]*\b`+label[1]+`\b[^)]*\)`, q.Expr, "the legend has a label that the query drops")
			}
		}
	}
	require.Greater(t, queries, 25)
	for name, m := range collected(t, false) {
		found := false
		for _, s := range m.series(name) {
			found = found || shown[s]
		}
		require.True(t, found, "%s is on no panel", name)
	}
	for _, v := range board.Templating.List {
		if v.Name == "datasource" {
			continue
		}
		of := regexp.MustCompile(`^label_values\((\w+)(\{[^}]*\})?, (job|instance)\)$`).FindStringSubmatch(v.Definition)
		require.NotNil(t, of, v.Definition)
		require.Contains(t, plain, of[1])
	}
}
