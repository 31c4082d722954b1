package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/bench/peers/fetch"
)

const (
	// postgresConnections is more than the 100 of the default, for 128 contenders.
	postgresConnections = 200

	postgresAdvice = "install PostgreSQL (Debian: apt-get install postgresql), or put postgres and initdb on PATH"
)

// Postgres starts one server with default settings, but for max_connections, and without autovacuum, whose processes come and go and would
// disturb the sum of the CPU; advisory locks leave nothing for it to do. As root it runs as the user postgres or nobody, since it refuses
// to run as root.
func Postgres(ctx context.Context) (*Server, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, &fetch.MissingError{What: "PostgreSQL", Advice: postgresAdvice, Err: err}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	g, err := newGroup("postgres", syscall.SIGINT) // "fast shutdown": ends sessions, keeps the data whole
	if err != nil {
		return nil, err
	}
	cred, err := otherUser()
	if err != nil {
		return nil, g.fail(err)
	}
	data := filepath.Join(g.dir, "data")
	if err := initPostgres(ctx, g, cred, bin, data); err != nil {
		return nil, g.fail(err)
	}
	_, err = g.start("postgres", cred, filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "autovacuum=off",
		"-c", "max_connections="+strconv.Itoa(postgresConnections))
	if err != nil {
		return nil, g.fail(err)
	}
	target := fmt.Sprintf("postgres://bench@%s/postgres?sslmode=disable", loopback(port))
	var version string
	err = g.await(ctx, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, target)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }()
		// Somebody else's server may have the port.
		var dir string
		const q = "select current_setting('data_directory'), current_setting('server_version')"
		if err := conn.QueryRow(ctx, q).Scan(&dir, &version); err != nil {
			return err
		}
		if dir != data {
			return fmt.Errorf("the server of %s answers, not ours", dir)
		}
		return nil
	})
	if err != nil {
		return nil, g.fail(err)
	}
	// There is no counter of statements; clients count their own.
	none := func(context.Context) (map[string]int64, error) { return map[string]int64{}, nil }
	return &Server{name: "postgres", target: target, version: version, group: g, ops: none}, nil
}

func initPostgres(ctx context.Context, g *group, cred *syscall.Credential, bin, data string) error {
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if cred != nil {
		if err := os.Chmod(g.dir, 0o711); err != nil {
			return err
		}
		if err := os.Chown(data, int(cred.Uid), int(cred.Gid)); err != nil {
			return err
		}
	}
	// initdb runs another postgres; --no-sync because its data lives as long as the benchmark.
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "bench", "--auth", "trust", "-E", "UTF8",
		"--locale", "C", "--no-sync")
	cmd.Dir = data
	cmd.SysProcAttr = g.attr(cred)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// findPostgres returns the folder of postgres and initdb: where the postgres of PATH really lies, else the newest of Debian's layout.
// Debian's package is not unpacked into the cache as that of Redis is: the other user whom postgres needs could not read it there.
func findPostgres() (string, error) {
	path, err := exec.LookPath("postgres")
	if err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil && fetch.Exists(filepath.Join(filepath.Dir(path), "initdb")) {
			return filepath.Dir(path), nil
		}
	}
	if dir := newestPostgres(); dir != "" {
		return dir, nil
	}
	return "", err
}

// newestPostgres returns a folder, or "".
func newestPostgres() string {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return ""
	}
	version := func(dir string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir))) // 0 if it is none
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range dirs {
		if fetch.Exists(filepath.Join(dir, "postgres")) && fetch.Exists(filepath.Join(dir, "initdb")) {
			return dir
		}
	}
	return ""
}

// otherUser is whom postgres runs as, nil for this process' own user.
func otherUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	var err error
	for _, name := range []string{"postgres", "nobody"} {
		var u *user.User
		if u, err = user.Lookup(name); err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("root may not run postgres, and there is no other user for it: %w", err)
}
