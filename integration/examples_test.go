package integration

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock"
)

var builds sync.Map // of what go build says to each example, by name: a function that builds it the first time

// built is one of examples, built once: one that runs cannot be written anew.
func built(t *testing.T, name string) string {
	t.Helper()
	bin := binDir + "/example-" + name
	build, _ := builds.LoadOrStore(name, sync.OnceValue(func() string {
		out, err := exec.Command("go", "build", "-o", bin, "../examples/"+name).CombinedOutput()
		if err != nil {
			return err.Error() + "\n" + string(out)
		}
		return ""
	}))
	require.Empty(t, build.(func() string)())
	return bin
}

// example is one that the test is alone to use: its database goes with the test.
func example(t *testing.T, name string) string {
	t.Helper()
	bin := built(t, name)
	db := connect(t, sharedURI).Database("fairlock_" + name)
	t.Cleanup(func() { _ = db.Drop(context.Background()) })
	return bin
}

// started is a running example.
type started struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr *bytes.Buffer // to be read after the end
}

func start(t *testing.T, bin string, args ...string) *started {
	t.Helper()
	p := &started{cmd: exec.CommandContext(withLimit(t), bin, args...), stderr: &bytes.Buffer{}}
	p.cmd.Env = append(os.Environ(), "FAIRLOCK_URI="+sharedURI)
	p.cmd.Stderr = p.stderr
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.stdout = bufio.NewReader(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// line is the next line of its output.
func (p *started) line(t *testing.T) string {
	t.Helper()
	line, err := p.stdout.ReadString('\n')
	require.NoError(t, err, "%s", p.stderr)
	return strings.TrimSpace(line)
}

// rest is what else it says, until it ends; which must be without a failure.
func (p *started) rest(t *testing.T) string {
	t.Helper()
	text, err := io.ReadAll(p.stdout)
	require.NoError(t, err)
	require.NoError(t, p.cmd.Wait(), "%s", p.stderr)
	return string(text)
}

func (p *started) stop(t *testing.T) string {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	return p.rest(t)
}

// TestExampleGetToken: 200 clients ask two processes for a token that has expired. It is refreshed once, they cost next to nothing while they wait, and all
// get the same.
func TestExampleGetToken(t *testing.T) {
	t.Parallel()
	bin := example(t, "gettoken")
	ps := []*started{start(t, bin, "-listen", "127.0.0.1:0", "-refresh", "3s"), start(t, bin, "-listen", "127.0.0.1:0", "-refresh", "3s")}
	urls := []string{ps[0].line(t), ps[1].line(t)}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	answers := map[string]int{}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			resp, err := client.Get(urls[i%2])
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			text, _ := io.ReadAll(resp.Body)
			mu.Lock()
			defer mu.Unlock()
			answers[fmt.Sprint(resp.StatusCode, " ", string(text))]++
		})
	}
	b := &bed{t: t, uri: sharedURI, db: connect(t, sharedURI).Database("fairlock_gettoken"), killed: new(atomic.Bool)}
	b.awaitWaiters(b.manager(fairlock.Config{}), "third party token", 199)
	before := cpuOf(t, ps[0].cmd.Process.Pid) + cpuOf(t, ps[1].cmd.Process.Pid)
	time.Sleep(time.Second) // the measured time itself
	used := cpuOf(t, ps[0].cmd.Process.Pid) + cpuOf(t, ps[1].cmd.Process.Pid) - before
	wg.Wait()
	t.Logf("200 clients in line at two processes: %v of CPU in 1s", used)
	require.Less(t, used, 100*time.Millisecond)
	require.Len(t, answers, 1, "%v", answers)
	for answer, n := range answers {
		require.True(t, strings.HasPrefix(answer, `200 {"token":`), answer)
		require.Equal(t, 200, n)
	}
	refreshes := 0
	for _, p := range ps {
		p.stop(t)
		refreshes += strings.Count(p.stderr.String(), "refresh")
	}
	require.Equal(t, 1, refreshes)
}

// TestExampleProcess: one request at a time for a key.
func TestExampleProcess(t *testing.T) {
	t.Parallel()
	p := start(t, example(t, "process"), "-listen", "127.0.0.1:0")
	url := p.line(t)
	began := time.Now()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			resp, err := http.Post(url+"k", "", nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode != 200 {
				t.Errorf("status %d", resp.StatusCode)
			}
		})
	}
	wg.Wait()
	require.GreaterOrEqual(t, time.Since(began), 2*time.Second)
	http.DefaultClient.CloseIdleConnections()
	p.stop(t)
}

// TestExampleBatch: three workers do each chunk once.
func TestExampleBatch(t *testing.T) {
	t.Parallel()
	bin := example(t, "batch")
	ps := []*started{start(t, bin), start(t, bin), start(t, bin)}
	times := map[string]int{}
	for _, p := range ps {
		for line := range strings.Lines(p.rest(t)) {
			times[line]++
		}
	}
	require.Len(t, times, 20)
	for line, n := range times {
		require.Equal(t, 1, n, line)
	}
}

// TestExampleMigrate: five start at one time, and all find the schema up to date.
func TestExampleMigrate(t *testing.T) {
	t.Parallel()
	bin := example(t, "migrate")
	var ps []*started
	for range 5 {
		ps = append(ps, start(t, bin))
	}
	for _, p := range ps {
		require.Equal(t, "schema is up to date\n", p.rest(t))
	}
	var doc struct{ Version int }
	db := connect(t, sharedURI).Database("fairlock_migrate")
	require.NoError(t, db.Collection("meta").FindOne(withLimit(t), bson.D{}).Decode(&doc))
	require.Equal(t, 2, doc.Version)
}

// TestExampleLeader: the leader is ended, and the one who stands by leads, with a larger term.
func TestExampleLeader(t *testing.T) {
	t.Parallel()
	bin := example(t, "leader")
	term := func(p *started) (n int64) {
		_, err := fmt.Sscanf(p.line(t), "leading, term %d", &n)
		require.NoError(t, err)
		return n
	}
	leader := start(t, bin)
	first := term(leader)
	standby := start(t, bin)
	b := &bed{t: t, uri: sharedURI, db: connect(t, sharedURI).Database("fairlock_leader"), killed: new(atomic.Bool)}
	b.awaitWaiters(b.manager(fairlock.Config{}), "reports", 1)
	leader.stop(t)
	require.Greater(t, term(standby), first)
	standby.stop(t)
}

// TestExampleScraperAndRateLimit run to their ends.
func TestExampleScraperAndRateLimit(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked.Add(1) }))
	defer site.Close()
	scraper := start(t, example(t, "scraper"), site.URL, site.URL)
	limit := start(t, example(t, "ratelimit"))
	scraper.rest(t)
	limit.rest(t)
	require.EqualValues(t, 2, asked.Load())
	require.Equal(t, 10, strings.Count(limit.stderr.String(), "weight"))
}
