package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/tail"
)

// fairlockBin is the command, built once, in binDir, which run makes and takes away.
var fairlockBin = sync.OnceValues(func() (string, error) {
	bin := binDir + "/fairlock"
	out, err := exec.Command("go", "build", "-o", bin, "../cmd/fairlock").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return bin, nil
})

// serving is a gateway in a process of its own.
type serving struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	done chan struct{}
}

// serve starts one on an address, or where it likes.
func (b *bed) serve(t *testing.T, listen string, args ...string) *serving {
	t.Helper()
	bin, err := fairlockBin()
	require.NoError(t, err)
	g := &serving{t: t, done: make(chan struct{})}
	g.cmd = exec.Command(bin, append([]string{"serve", "--listen", listen, "--uri", b.uri, "--db", b.db.Name()}, args...)...)
	out, err := g.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, g.cmd.Start())
	t.Cleanup(func() {
		_ = g.cmd.Process.Kill()
		<-g.done
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		defer close(g.done)
		_, _ = io.Copy(io.Discard, out)
		_ = g.cmd.Wait()
	}()
	require.NoError(t, err)
	g.url = strings.TrimSuffix(line, "/\n")
	return g
}

// end sends a signal, and returns how the process ended.
func (g *serving) end(sig syscall.Signal) int {
	g.t.Helper()
	require.NoError(g.t, g.cmd.Process.Signal(sig))
	select {
	case <-g.done:
	case <-time.After(limit):
		require.FailNow(g.t, "the gateway does not end")
	}
	return g.cmd.ProcessState.ExitCode()
}

// httpLease is what a test reads of a lease.
type httpLease struct {
	State, Reason string
	Token         int64
}

// httpEvent is an event, and when it came.
type httpEvent struct {
	name  string
	lease httpLease
	at    time.Time
}

// subscribe asks for a lock by a stream. The channel is closed at the stream's end.
func subscribe(t *testing.T, client *http.Client, url, id, name string) <-chan httpEvent {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "PUT", url+"/v1/leases/"+id, strings.NewReader(fmt.Sprintf(`{"name":%q,"label":%q}`, name, id)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	events := make(chan httpEvent, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(events)
		defer func() { _ = resp.Body.Close() }()
		in := bufio.NewScanner(resp.Body)
		var ev httpEvent
		for in.Scan() {
			switch line := in.Text(); {
			case strings.HasPrefix(line, "event: "):
				ev.name = line[7:]
			case strings.HasPrefix(line, "data: "):
				_ = json.Unmarshal([]byte(line[6:]), &ev.lease)
			case line == "" && ev.name != "":
				ev.at = time.Now()
				events <- ev
				ev = httpEvent{}
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return events
}

// awaitEvent returns the next event of that name.
func awaitEvent(t *testing.T, events <-chan httpEvent, name string) httpEvent {
	t.Helper()
	stop := time.After(limit)
	for {
		select {
		case ev, ok := <-events:
			require.True(t, ok, "the stream has ended before %q", name)
			if ev.name == name {
				return ev
			}
		case <-stop:
			require.FailNow(t, "no event "+name)
		}
	}
}

func newHTTP(t *testing.T) *http.Client {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func deleteLease(t *testing.T, client *http.Client, url, id string) {
	t.Helper()
	req, err := http.NewRequestWithContext(withLimit(t), "DELETE", url+"/v1/leases/"+id, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	require.Equal(t, 200, resp.StatusCode)
}

// TestGatewayRestart: a gateway with clients who hold and who wait is ended by SIGTERM. Everybody is told, everything is handed on within two
// seconds, clients of another gateway and of no gateway at all go on, and the next process takes clients under the same ids.
func TestGatewayRestart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	client := newHTTP(t)
	one, two := b.serve(t, "127.0.0.1:0"), b.serve(t, "127.0.0.1:0")
	other := b.manager(fairlock.Config{})
	const locks, each = 10, 200
	name := func(i int) string { return fmt.Sprint("lock ", i) }
	var holders, inLine []<-chan httpEvent
	last := map[int]int64{}
	for i := range locks {
		h := subscribe(t, client, one.url, fmt.Sprintf("holder-%04d", i), name(i))
		last[i] = awaitEvent(t, h, "held").lease.Token
		holders = append(holders, h)
	}
	for i := range locks * each {
		w := subscribe(t, client, one.url, fmt.Sprintf("waiter-%04d", i), name(i%locks))
		awaitEvent(t, w, "waiting")
		inLine = append(inLine, w)
	}
	// Behind all of them: of each second lock a client of the other gateway, of the rest somebody without one.
	granted := make(chan time.Time, locks)
	for i := range locks {
		if i%2 == 0 {
			w := subscribe(t, client, two.url, fmt.Sprintf("behind-%04d", i), name(i))
			awaitEvent(t, w, "waiting")
			go func() {
				for ev := range w {
					if ev.name == "held" {
						granted <- ev.at
						return
					}
				}
			}()
			continue
		}
		go func() {
			l, err := other.Lock(context.Background(), name(i))
			granted <- time.Now()
			if err == nil {
				err = l.Unlock(context.Background())
			}
			if err != nil {
				t.Error(err)
			}
		}()
	}
	b.awaitWaiters(other, name(locks-1), each+1)

	began := time.Now()
	addr := strings.TrimPrefix(one.url, "http://")
	require.Zero(t, one.end(syscall.SIGTERM))
	ended := time.Since(began)
	for range locks {
		at := <-granted
		require.Less(t, at.Sub(began), 2*time.Second)
	}
	for _, h := range holders {
		ev := awaitEvent(t, h, "closing")
		require.Equal(t, "lost", ev.lease.State)
		require.Less(t, ev.at.Sub(began), 2*time.Second)
	}
	for _, w := range inLine {
		ev := awaitEvent(t, w, "closing")
		require.Equal(t, "left", ev.lease.State)
		require.Less(t, ev.at.Sub(began), 2*time.Second)
	}
	t.Logf("ended after %v", ended)
	require.Less(t, ended, 5*time.Second)

	again := b.serve(t, addr)
	require.Equal(t, one.url, again.url)
	for i := range locks {
		if i%2 == 0 {
			deleteLease(t, client, two.url, fmt.Sprintf("behind-%04d", i))
		}
		h := subscribe(t, client, again.url, fmt.Sprintf("holder-%04d", i), name(i))
		require.Greater(t, awaitEvent(t, h, "held").lease.Token, last[i])
		deleteLease(t, client, again.url, fmt.Sprintf("holder-%04d", i))
	}
	require.Zero(t, again.end(syscall.SIGTERM))
	require.Zero(t, two.end(syscall.SIGTERM))
}

// TestGatewayKilled: a gateway that is killed holds its clients' locks up for its lease; its clients know by leftMs that it is over.
func TestGatewayKilled(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.killed.Store(true)
	client := newHTTP(t)
	g := b.serve(t, "127.0.0.1:0", "--ttl", shortTTL.String())
	h := subscribe(t, client, g.url, "holder-00", "x")
	token := awaitEvent(t, h, "held").lease.Token
	m := b.manager(fairlock.Config{TTL: shortTTL})
	eventually(t, "the holder's ticket", func() bool {
		info, err := m.Inspect(withLimit(t), "x")
		return err == nil && len(info.Holders) == 1 && info.Holders[0].Owner != nil
	})
	require.Equal(t, -1, g.end(syscall.SIGKILL))
	began := time.Now()
	l, err := m.Lock(withLimit(t), "x")
	require.NoError(t, err)
	require.Less(t, time.Since(began), 2*shortTTL)
	require.Greater(t, l.Token(), token)
	require.NoError(t, l.Unlock(withLimit(t)))
}

// TestGatewayCrowd: 200 clients wait for one lock. While they wait the gateway costs next to nothing; then each gets it in turn, in the order
// in which they came, and no two at one time.
func TestGatewayCrowd(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	client := newHTTP(t)
	g := b.serve(t, "127.0.0.1:0")
	m := b.manager(fairlock.Config{})
	l, err := m.Lock(withLimit(t), "x")
	require.NoError(t, err)
	const n = 200
	var crowd []<-chan httpEvent
	for i := range n {
		w := subscribe(t, client, g.url, fmt.Sprintf("waiter-%04d", i), "x")
		awaitEvent(t, w, "waiting")
		crowd = append(crowd, w)
	}
	b.awaitWaiters(m, "x", n)
	before := cpuOf(t, g.cmd.Process.Pid)
	const during = 5 * time.Second
	time.Sleep(during) // the measured time itself
	used := cpuOf(t, g.cmd.Process.Pid) - before
	t.Logf("200 clients in line: %v of CPU in %v", used, during)
	require.Less(t, used, during/20)

	require.NoError(t, l.Unlock(withLimit(t)))
	last := l.Token()
	for i, w := range crowd {
		ev := awaitEvent(t, w, "held")
		require.Equal(t, last+1, ev.lease.Token)
		last = ev.lease.Token
		for j := i + 1; j < min(i+5, n); j++ {
			require.Empty(t, crowd[j], "granted beside another")
		}
		deleteLease(t, client, g.url, fmt.Sprintf("waiter-%04d", i))
	}
	require.Zero(t, g.end(syscall.SIGTERM))
}

// cpuOf is the user and system time of a process: ticks of 10 ms where there is /proc, else whole seconds of ps.
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		out, err := exec.Command("ps", "-o", "time=", "-p", fmt.Sprint(pid)).Output()
		require.NoError(t, err)
		var m, s float64
		_, err = fmt.Sscanf(strings.TrimSpace(string(out)), "%f:%f", &m, &s)
		require.NoError(t, err)
		return time.Duration((60*m + s) * float64(time.Second))
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	var user, system int64
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	require.NoError(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// TestGatewayGuide runs the commands of docs/gateway.md as they stand there, on a port of their own.
func TestGatewayGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/gateway.md")
	require.NoError(t, err)
	walk, _, found := strings.Cut(string(guide), "\n## Requests\n")
	require.True(t, found)
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(walk, -1)
	require.Len(t, blocks, 5)
	b := newBed(t)
	g := b.serve(t, "127.0.0.1:0")
	script := "set -eu\n"
	for _, block := range blocks[1:] { // the first starts the gateway
		script += block[1]
	}
	// The stream shall have come to its grant before it is ended.
	script += `
until curl -sS http://127.0.0.1:8420/v1/leases/my-lease-0002 | grep -q '"held"'; do sleep 0.05; done
curl -sS -X DELETE http://127.0.0.1:8420/v1/leases/my-lease-0002
wait
`
	cmd := exec.CommandContext(withLimit(t), "sh", "-c", strings.ReplaceAll(script, "http://127.0.0.1:8420", g.url))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{
		`"id":"my-lease-0001","name":"invoices","kind":"mutex","state":"held"`, `"heartbeatMs":10000}`,
		"event: held", "event: released", `"state":"released"`, `"name":"invoices"`, `{"locks":[{`,
	} {
		require.Contains(t, string(out), want, "%s", out)
	}
	require.Zero(t, g.end(syscall.SIGTERM))
}

// TestGatewayClients: the clients of docs/gateway.md, as they stand there. No two of them are under the lock at one time, and when their gateway does
// not answer they stop by themselves before anybody else can be.
func TestGatewayClients(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/gateway.md")
	require.NoError(t, err)
	block := func(begin string) string {
		_, rest, found := strings.Cut(string(guide), begin)
		require.True(t, found, begin)
		text, _, found := strings.Cut(rest, "```\n")
		require.True(t, found, begin)
		return text
	}
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(dir+"/"+name, []byte(text), 0o700))
	}
	write("with-lock", "#!/bin/sh\n"+block("```sh\n#!/bin/sh\n"))
	write("fairlock_http.py", "import http.client"+block("```python\nimport http.client"))
	use := "from fairlock_http import *\nimport os, sys\n"
	url := "\"http://127.0.0.1:8420\""
	write("guide.py", use+strings.Replace("with Lock("+block("```python\nwith Lock("), url, `os.environ["FAIRLOCK_URL"]`, 1))
	write("turn.py", use+`
with Lock(os.environ["FAIRLOCK_URL"], "invoices", bearer=os.environ["FAIRLOCK_TOKEN"], label="py") as lock:
    for word in ("in", "out"):
        lock.check()
        with open("turns", "a") as turns:
            turns.write(word + " ")
        lock.lost.wait(0.05)
`)
	write("keep.py", use+`
with Lock(os.environ["FAIRLOCK_URL"], "kept", bearer=os.environ["FAIRLOCK_TOKEN"]) as lock:
    print("held", flush=True)
    lock.lost.wait()
    print("lost", flush=True)
    lock.check()
`)
	b := newBed(t)
	const token, heartbeat = "0123456789abcdef", 20 * time.Second
	write("tokens", "worker "+token+"\n")
	g := b.serve(t, "127.0.0.1:0", "--token-file", dir+"/tokens", "--heartbeat", heartbeat.String())
	begin := func(name string, args ...string) (*exec.Cmd, *tail.Tail) {
		cmd := exec.CommandContext(withLimit(t), name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "FAIRLOCK_URL="+g.url, "FAIRLOCK_TOKEN="+token)
		out := &tail.Tail{}
		cmd.Stdout, cmd.Stderr = out, out
		require.NoError(t, cmd.Start())
		return cmd, out
	}
	shell := []string{"./with-lock", "invoices", "sh", "-c", `printf 'in ' >> turns; sleep 0.05; printf 'out ' >> turns`}
	const each = 4
	var turns []*exec.Cmd
	var words []*tail.Tail
	for range each {
		for _, args := range [][]string{shell, {"python3", "turn.py"}} {
			cmd, out := begin(args[0], args[1:]...)
			turns, words = append(turns, cmd), append(words, out)
		}
	}
	for i, cmd := range turns {
		require.NoError(t, cmd.Wait(), "%s", words[i])
	}
	got, err := os.ReadFile(dir + "/turns")
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("in out ", 2*each), string(got))

	// Exit code and standard input of the command are its own.
	cmd := exec.CommandContext(withLimit(t), "./with-lock", "invoices", "sh", "-c", "read line; test \"$line\" = said && exit 7")
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), "FAIRLOCK_URL="+g.url, "FAIRLOCK_TOKEN="+token), strings.NewReader("said\n")
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Run(), &exit)
	require.Equal(t, 7, exit.ExitCode())

	py, pySaid := begin("python3", "keep.py")
	sh, shSaid := begin("./with-lock", "kept too", "sh", "-c", "echo $$ held; exec sleep 1000")
	for _, out := range []*tail.Tail{pySaid, shSaid} {
		eventually(t, "the lock", func() bool { return strings.HasSuffix(out.String(), "held\n") })
	}
	// The gateway stands still and answers nobody: they stop by their own clocks, before it would give up on them.
	began := time.Now()
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGSTOP))
	pid, err := strconv.Atoi(strings.Fields(shSaid.String())[0])
	require.NoError(t, err)
	eventually(t, "the end of the command", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	eventually(t, "the loss", func() bool { return strings.Contains(pySaid.String(), "lost\n") })
	require.Less(t, time.Since(began), heartbeat)
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGCONT))
	require.Error(t, py.Wait())
	require.Contains(t, pySaid.String(), "fairlock_http.Lost: kept")
	require.Error(t, sh.Wait())
	require.Equal(t, 137, sh.ProcessState.ExitCode(), "%s", shSaid)
	require.Zero(t, g.end(syscall.SIGTERM))

	// The lines of the guide itself, which have no token.
	g = b.serve(t, "127.0.0.1:0")
	cmd, out := begin("python3", "guide.py")
	require.NoError(t, cmd.Wait(), "%s", out)
	require.Regexp(t, `^(step \d under token \d+\n){3}$`, out.String())
	require.Zero(t, g.end(syscall.SIGTERM))
}
