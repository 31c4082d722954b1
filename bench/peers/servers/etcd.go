package servers

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
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/bench/peers/fetch"
)

const (
	etcdPackage = "go.etcd.io/etcd/server/v3"
	etcdMembers = 3
	etcdAdvice  = "run from a checkout, with go on PATH and a module proxy that serves " + etcdPackage
)

// EtcdServer is a cluster of etcd. It implements run.Floorer.
type EtcdServer struct{ *Server }

// Etcd starts a cluster of three members with default options.
func Etcd(ctx context.Context) (*EtcdServer, error) {
	path, err := buildEtcd(ctx)
	if err != nil {
		return nil, &fetch.MissingError{What: "etcd", Advice: etcdAdvice, Err: err}
	}
	var clients, peers, cluster []string
	for i := range etcdMembers {
		c, err1 := freePort()
		p, err2 := freePort()
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		clients = append(clients, "http://"+loopback(c))
		peers = append(peers, "http://"+loopback(p))
		cluster = append(cluster, fmt.Sprintf("m%d=%s", i, peers[i]))
	}
	g, err := newGroup("etcd", syscall.SIGTERM)
	if err != nil {
		return nil, err
	}
	for i := range etcdMembers {
		name := fmt.Sprintf("m%d", i)
		_, err := g.start(name, nil, path, "--name", name, "--data-dir", filepath.Join(g.dir, name),
			"--listen-client-urls", clients[i], "--advertise-client-urls", clients[i],
			"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
			"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-state", "new", "--initial-cluster-token", filepath.Base(g.dir))
		if err != nil {
			return nil, g.fail(err)
		}
	}
	err = g.await(ctx, func(ctx context.Context) error {
		for _, url := range clients {
			body, err := get(ctx, url+"/health")
			if err != nil {
				return err
			}
			if !strings.Contains(body, `"health":"true"`) {
				return fmt.Errorf("%s says %s", url, body)
			}
		}
		return nil
	})
	if err != nil {
		return nil, g.fail(err)
	}
	return &EtcdServer{&Server{
		name: "etcd", target: strings.Join(clients, ","), version: etcdVersion(ctx, clients[0]), group: g,
		ops: func(ctx context.Context) (map[string]int64, error) { return etcdOps(ctx, clients) },
	}}, nil
}

func etcdVersion(ctx context.Context, url string) string {
	var v struct {
		Server string `json:"etcdserver"`
	}
	body, err := get(ctx, url+"/version")
	if err != nil || json.Unmarshal([]byte(body), &v) != nil {
		return "unknown"
	}
	return v.Server
}

// Floor is one Put, which two of three members have on disk when it returns.
func (s *EtcdServer) Floor(ctx context.Context) (op func(context.Context) error, end func(), err error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(s.target, ",")})
	if err != nil {
		return nil, nil, err
	}
	op = func(ctx context.Context) error {
		_, err := client.Put(ctx, "/bench/floor", "1")
		return err
	}
	end = func() { _ = client.Close() }
	if err := op(ctx); err != nil {
		end()
		return nil, nil, fmt.Errorf("servers: floor: %w", err)
	}
	return op, end, nil
}

// buildEtcd builds etcd, as its project releases it, from the module in peers/etcdserver, once for each of its go.sum.
func buildEtcd(ctx context.Context) (string, error) {
	_, here, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(here), "..", "etcdserver")
	sum, err := os.ReadFile(filepath.Join(source, "go.sum"))
	if err != nil {
		return "", err
	}
	parent, err := fetch.Cache("etcd")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, fetch.Digest(sum))
	return filepath.Join(dir, "etcd"), fetch.Into(dir, func(temp string) error {
		cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-o", filepath.Join(temp, "etcd"), etcdPackage)
		cmd.Dir = source
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	})
}

// etcdOps adds up what the members count: messages that clients sent them, each a request or a part of a stream. The proposals are those
// of one member, since all apply the same.
func etcdOps(ctx context.Context, urls []string) (map[string]int64, error) {
	ops := map[string]int64{}
	for _, url := range urls {
		text, err := get(ctx, url+"/metrics")
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(strings.NewReader(text))
		for lines.Scan() {
			name, value, found := strings.Cut(lines.Text(), " ")
			series, _, _ := strings.Cut(name, "{")
			if !found || series != "grpc_server_msg_received_total" && series != "etcd_server_proposals_applied_total" {
				continue
			}
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil, fmt.Errorf("%s/metrics: %s: %w", url, name, err)
			}
			if series == "grpc_server_msg_received_total" {
				ops["grpc_received"] += int64(n)
			} else {
				ops["proposals"] = max(ops["proposals"], int64(n))
			}
		}
	}
	ops["total"] = ops["grpc_received"]
	return ops, nil
}

// get reads a page of a server of this machine.
func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return string(body), err
}
