package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/fairlock/bench/peers/fetch"
)

const redisAdvice = "install redis-server so that it is on PATH (Debian: apt-get install redis-server)"

// Redis starts one redis-server: append-only file, fsync every second, no snapshots.
func Redis(ctx context.Context) (*Server, error) {
	path, env, err := findRedis(ctx)
	if err != nil {
		return nil, &fetch.MissingError{What: "redis-server", Advice: redisAdvice, Err: err}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	g, err := newGroup("redis", syscall.SIGTERM)
	if err != nil {
		return nil, err
	}
	p, err := g.start("redis", nil, "env", append(env, path, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", g.dir,
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "")...)
	if err != nil {
		return nil, g.fail(err)
	}
	client := redis.NewClient(&redis.Options{Addr: loopback(port), PoolSize: 1})
	s := &Server{name: "redis", target: loopback(port), group: g, end: func() { _ = client.Close() }}
	err = g.await(ctx, func(ctx context.Context) error {
		// Somebody else's server may have the port.
		id, err := redisInfo(ctx, client, "server", "process_id")
		if err == nil && id != strconv.Itoa(p.cmd.Process.Pid) {
			err = fmt.Errorf("process %s answers, not ours", id)
		}
		if err == nil {
			s.version, err = redisInfo(ctx, client, "server", "redis_version")
		}
		return err
	})
	if err != nil {
		s.end()
		return nil, g.fail(err)
	}
	// Commands inside a script count too; so does the INFO by which this is read.
	s.ops = func(ctx context.Context) (map[string]int64, error) {
		text, err := redisInfo(ctx, client, "stats", "total_commands_processed")
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseInt(text, 10, 64)
		return map[string]int64{"commands": n, "total": n}, err
	}
	return s, nil
}

// findRedis returns the server and what its environment has to have.
func findRedis(ctx context.Context) (path string, env []string, err error) {
	if path, err = exec.LookPath("redis-server"); err == nil {
		return path, nil, nil
	}
	root, err2 := fetch.Debian(ctx, "redis-server", "redis-tools", "liblzf1", "libjemalloc2")
	if err2 != nil {
		return "", nil, errors.Join(err, err2)
	}
	path = filepath.Join(root, "usr", "bin", "redis-server")
	if _, err := os.Stat(path); err != nil {
		return "", nil, err
	}
	return path, []string{"LD_LIBRARY_PATH=" + fetch.LibraryPath(root)}, nil
}

func redisInfo(ctx context.Context, client *redis.Client, section, field string) (string, error) {
	text, err := client.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("INFO %s has no %s", section, field)
}
