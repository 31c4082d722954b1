package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/bench/peers/java"
)

const zooServers = 3

// ZooKeeper starts an ensemble of three servers with the settings of its sample configuration (tick 2 s, init 10, sync 5), each with a
// heap of at most 256 MB.
func ZooKeeper(ctx context.Context) (*Server, error) {
	classes, err := java.ClassPath(ctx)
	if err != nil {
		return nil, err
	}
	var clients, members []string
	for i := range zooServers {
		c, err1 := freePort()
		q, err2 := freePort()
		e, err3 := freePort()
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		clients = append(clients, loopback(c))
		members = append(members, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, q, e))
	}
	g, err := newGroup("zookeeper", syscall.SIGTERM)
	if err != nil {
		return nil, err
	}
	for i := range zooServers {
		name := fmt.Sprintf("z%d", i+1)
		cfg, err := zooConfig(filepath.Join(g.dir, name), i+1, clients[i], members)
		if err != nil {
			return nil, g.fail(err)
		}
		_, err = g.start(name, nil, "java", "-Xmx256m", "-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=mntr",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain", cfg)
		if err != nil {
			return nil, g.fail(err)
		}
	}
	ops := func(ctx context.Context) (map[string]int64, error) { return zooOps(ctx, clients) }
	err = g.await(ctx, func(ctx context.Context) error {
		_, err := ops(ctx)
		return err
	})
	var version string
	if err == nil {
		version, err = zooVersion(ctx, clients[0])
	}
	if err != nil {
		return nil, g.fail(err)
	}
	return &Server{name: "zookeeper", target: strings.Join(clients, ","), version: version, group: g, ops: ops}, nil
}

// zooConfig makes the folder and the configuration of one server.
func zooConfig(dir string, id int, client string, members []string) (string, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "myid"), []byte(strconv.Itoa(id)), 0o600); err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(client)
	if err != nil {
		return "", err
	}
	cfg := fmt.Sprintf("tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPort=%s\nclientPortAddress=%s\n%s\n",
		dir, port, host, strings.Join(members, "\n"))
	path := filepath.Join(dir, "zoo.cfg")
	return path, os.WriteFile(path, []byte(cfg), 0o600)
}

// zooOps adds up the packets that clients sent. The requests by which this is read are not among them, but the pings of sessions are.
func zooOps(ctx context.Context, addresses []string) (map[string]int64, error) {
	var total int64
	for _, address := range addresses {
		text, err := fourLetters(ctx, address, "mntr")
		if err != nil {
			return nil, err
		}
		value, err := mntr(text, "zk_packets_received")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		total += n
	}
	return map[string]int64{"packets_received": total, "total": total}, nil
}

// zooVersion is the number only, without the build.
func zooVersion(ctx context.Context, address string) (string, error) {
	text, err := fourLetters(ctx, address, "mntr")
	if err != nil {
		return "", err
	}
	value, err := mntr(text, "zk_version")
	version, _, _ := strings.Cut(value, "-")
	return version, err
}

func mntr(text, name string) (string, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+"\t"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("mntr has no %s, but: %s", name, strings.TrimSpace(text))
}

// fourLetters sends one of ZooKeeper's commands of four letters.
func fourLetters(ctx context.Context, address, command string) (string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}
