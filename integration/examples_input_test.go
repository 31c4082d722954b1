package integration

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExamplesSayWhatIsWrong: an address that is missing or none, arguments and flags that cannot be meant: the error names value and rule, before anything is
// locked.
func TestExamplesSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	const noURI = `FAIRLOCK_URI: error parsing uri: scheme must be "mongodb" or "mongodb+srv"`
	bad := map[string][]struct {
		args []string
		says string
	}{
		"quickstart": {},
		"leader":     {{[]string{"x"}, `arguments are ["x"]: must be none`}},
		"migrate":    {{[]string{"x"}, `arguments are ["x"]: must be none`}},
		"process":    {{[]string{"x"}, `arguments are ["x"]: must be none`}, {[]string{"-wait", "1"}, "flag provided but not defined: -wait"}},
		"gettoken": {
			{[]string{"x"}, `arguments are ["x"]: must be none`}, {[]string{"-refresh=x"}, `invalid value "x" for flag -refresh`},
			{[]string{"-refresh=-1s"}, "-refresh is -1s: must be positive"},
		},
		"batch":     {{[]string{"x"}, `arguments are ["x"]: must be none`}, {[]string{"-chunks=0"}, "-chunks is 0: must be at least 1"}},
		"ratelimit": {{[]string{"x"}, `arguments are ["x"]: must be none`}, {[]string{"-permits=0"}, "permits is 0: must be from 1 to 10000"}},
		"scraper":   {{[]string{"x"}, `page is "x": must be an http or https URL`}, {nil, "pages: none, must be at least one"}},
	}
	folders, err := filepath.Glob("../examples/*/main.go")
	require.NoError(t, err)
	require.Len(t, folders, len(bad))
	for name, cases := range bad {
		bin := built(t, name)
		run := func(uri string, args []string, says string) {
			cmd := exec.CommandContext(withLimit(t), bin, args...)
			cmd.Env = []string{"FAIRLOCK_URI=" + uri}
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "%s %v", name, args)
			require.Contains(t, string(out), says, "%s %v", name, args)
			require.NotContains(t, string(out), "panic", "%s %v", name, args)
		}
		var good []string
		if name == "scraper" {
			good = []string{"http://127.0.0.1:1/"}
		}
		run("", good, noURI)
		run("127.0.0.1:27017", good, noURI)
		for _, c := range cases {
			run(sharedURI, c.args, c.says)
		}
	}
}
