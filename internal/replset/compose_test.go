package replset

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const composePath = "../../docker-compose.replset.yml"

// composeFile has the parts of a compose file that are checked here.
type composeFile struct {
	Services map[string]struct {
		Image       string    `yaml:"image"`
		NetworkMode string    `yaml:"network_mode"`
		Ports       []string  `yaml:"ports"`
		Entrypoint  []string  `yaml:"entrypoint"`
		Command     []string  `yaml:"command"`
		Volumes     []string  `yaml:"volumes"`
		DependsOn   yaml.Node `yaml:"depends_on"`
		Healthcheck struct {
			Test []string `yaml:"test"`
		} `yaml:"healthcheck"`
	} `yaml:"services"`
	Volumes map[string]any `yaml:"volumes"`
}

// TestCompose holds docker-compose.replset.yml to what its own comments promise,
// since no Docker is needed, nor had, where the tests run.
func TestCompose(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(composePath)
	require.NoError(t, err)
	var c composeFile
	require.NoError(t, yaml.Unmarshal(text, &c))

	initiator := c.Services["init"]
	require.NotEmpty(t, initiator.Entrypoint)
	script := initiator.Entrypoint[len(initiator.Entrypoint)-1]
	var after map[string]struct{ Condition string }
	require.NoError(t, initiator.DependsOn.Decode(&after))

	var published []string
	members := 0
	for i := 1; c.Services["mongo"+strconv.Itoa(i)].Image != ""; i++ {
		name, port := "mongo"+strconv.Itoa(i), strconv.Itoa(27016+i)
		m := c.Services[name]
		members++
		require.Equal(t, "service:net", m.NetworkMode, name)
		require.Empty(t, m.Ports, "%s: the owner of the namespace publishes", name)
		require.Equal(t, "fairlock", flag(m.Command, "--replSet"), name)
		require.Equal(t, port, flag(m.Command, "--port"), name)
		require.Equal(t, []string{name + ":/data/db"}, m.Volumes)
		require.Contains(t, c.Volumes, name, "the volume must be a named one")
		require.Equal(t, port, flag(m.Healthcheck.Test, "--port"), "%s: its health is its own", name)
		require.Contains(t, strings.Join(m.Healthcheck.Test, " "), "ping")
		require.Equal(t, "service_healthy", after[name].Condition, name)
		require.Contains(t, script, "host: '127.0.0.1:"+port+"'")
		published = append(published, "127.0.0.1:"+port+":"+port)
	}
	require.Equal(t, 3, members)
	require.Len(t, after, 3)
	require.Equal(t, published, c.Services["net"].Ports, "on loopback, and by the same numbers inside and outside")
	for name, s := range c.Services {
		require.Equal(t, "mongo:7.0", s.Image, "%s: pinned, and the same for all", name)
		if name != "net" {
			require.Empty(t, s.Ports, name)
		}
	}

	// Idempotent: the state is asked first, only "not yet" leads on to the one
	// initiation, and losing a race with another one is no error.
	require.Equal(t, "service:net", initiator.NetworkMode)
	require.Equal(t, 1, strings.Count(script, "rs.initiate("))
	steps := []string{"rs.status()", "return; // there is a set", "'NotYetInitialized'", "rs.initiate(", "'AlreadyInitialized'"}
	from := strings.Index(script, "function initiate()")
	require.GreaterOrEqual(t, from, 0)
	for _, step := range steps {
		at := strings.Index(script[from:], step)
		require.GreaterOrEqual(t, at, 0, "%q is missing or out of order", step)
		from += at
	}
	require.NotContains(t, script, "$", "compose would replace it")

	if out, err := exec.Command("docker", "compose", "version").CombinedOutput(); err != nil {
		t.Logf("checked by parsing only; no docker compose here: %v %s", err, said(string(out)))
		return
	}
	out, err := exec.Command("docker", "compose", "-f", composePath, "config", "-q").CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Log("checked by parsing, and by docker compose config")
}

// flag is the word after name.
func flag(args []string, name string) string {
	i := slices.Index(args, name)
	if i < 0 || i+1 >= len(args) {
		return ""
	}
	return args[i+1]
}
