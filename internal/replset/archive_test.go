package replset

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type entry struct {
	name, body string
	typ        byte
}

func tgz(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Typeflag: e.typ}
		if e.typ == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(e.body))
		} else {
			h.Linkname = e.body
		}
		require.NoError(t, tw.WriteHeader(h))
		if e.typ == 0 {
			_, err := tw.Write([]byte(e.body))
			require.NoError(t, err)
		}
	}
	require.NoError(t, tw.Close())
	require.NoError(t, zw.Close())
	return buf.Bytes()
}

func fakeMongod(version string) string { return "#!/bin/sh\n" + says(version) + "\n" }

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// vendor serves an archive and its checksum file under the real names.
type vendor struct {
	archive   []byte
	sum       string // content of the checksum file; empty is 404
	noArchive bool
	length    int           // announced, if not that of archive
	hang      chan struct{} // the archive stops half way until this closes
	served    atomic.Int32  // archives
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := "/" + archives["linux/amd64"]
	switch {
	case r.URL.Path == name+".sha256" && v.sum != "":
		_, _ = w.Write([]byte(v.sum))
	case r.URL.Path == name && !v.noArchive:
		v.served.Add(1)
		if v.length != 0 {
			w.Header().Set("Content-Length", strconv.Itoa(v.length))
		}
		if v.hang != nil {
			_, _ = w.Write(v.archive[:len(v.archive)/2])
			_ = http.NewResponseController(w).Flush()
			select {
			case <-v.hang:
			case <-r.Context().Done():
			}
			return
		}
		_, _ = w.Write(v.archive)
	default:
		http.NotFound(w, r)
	}
}

func (v *vendor) start(t *testing.T) (*finder, string) {
	t.Helper()
	srv := httptest.NewServer(v)
	t.Cleanup(srv.Close)
	f, env := testFinder(t)
	env[EnvBaseURL] = srv.URL + "/"
	return f, filepath.Join(env[EnvCache], "mongod")
}

// installed lists the cache, without lock files: what a failed install must leave
// is nothing.
func installed(t *testing.T, root string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".lock") {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestArchiveGood(t *testing.T) {
	t.Parallel()
	dir := "mongodb-linux-x86_64-ubuntu2204-6.0.5"
	archive := tgz(t,
		entry{name: dir + "/README", body: "hello"},
		entry{name: dir + "/bin/mongos", body: "other"},
		entry{name: dir + "/bin/mongod", body: fakeMongod("6.0.5")})
	v := &vendor{archive: archive, sum: strings.ToUpper(sumOf(archive)) + "  " + dir + ".tgz\n"}
	f, root := v.start(t)

	// I2: eight at once, one download, one result.
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			b, err := f.fromArchive(context.Background())
			if err != nil || b.Path != filepath.Join(root, "6.0.5", "mongod") || b.Version != "6.0.5" {
				t.Errorf("got %+v, %v", b, err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, v.served.Load())
	require.Equal(t, []string{"6.0.5"}, installed(t, root))
	b, err := f.fromCache(context.Background())
	require.NoError(t, err)
	require.Equal(t, "6.0.5", b.Version)
}

func TestArchiveBad(t *testing.T) {
	t.Parallel()
	good := entry{name: "x/bin/mongod", body: fakeMongod("6.0.5")}
	plain := tgz(t, good)
	// of makes a server whose checksum is right, so that the archive is looked into.
	of := func(entries ...entry) *vendor {
		a := tgz(t, entries...)
		return &vendor{archive: a, sum: sumOf(a)}
	}
	cut := plain[:len(plain)-20]
	for name, c := range map[string]struct {
		v    *vendor
		want string
	}{
		"wrong sum":      {&vendor{archive: plain, sum: strings.Repeat("0", 64) + "  x.tgz"}, "published is 0000"},
		"no sum":         {&vendor{archive: plain}, "404"},
		"sum is no sum":  {&vendor{archive: plain, sum: "<html>sorry</html>"}, "no SHA-256"},
		"no archive":     {&vendor{archive: plain, sum: sumOf(plain), noArchive: true}, "404"},
		"body cut":       {&vendor{archive: plain, sum: sumOf(plain), length: len(plain) + 1}, "unexpected EOF"},
		"gzip cut":       {&vendor{archive: cut, sum: sumOf(cut)}, "unexpected EOF"},
		"not gzip":       {&vendor{archive: []byte("hello"), sum: sumOf([]byte("hello"))}, "unpack"},
		"traversal":      {of(entry{name: "x/../../evil", body: "evil"}, good), "leaves the folder"},
		"hidden mongod":  {of(entry{name: "../x/bin/mongod", body: good.body}), "leaves the folder"},
		"absolute":       {of(entry{name: "/etc/bin/mongod", body: good.body}), "leaves the folder"},
		"symbolic link":  {of(entry{name: "x/bin/mongod", body: "/bin/sh", typ: tar.TypeSymlink}), "not the one regular file"},
		"two mongod":     {of(good, entry{name: "y/bin/mongod", body: good.body}), "not the one regular file"},
		"no mongod":      {of(entry{name: "x/bin/mongos", body: good.body}), errNoMember.Error()},
		"does not run":   {of(entry{name: "x/bin/mongod", body: "#!/bin/sh\nexit 3\n"}), "does not run here"},
		"too old to use": {of(entry{name: "x/bin/mongod", body: fakeMongod("4.4.0")}), "older than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, root := c.v.start(t)
			_, err := f.fromArchive(context.Background())
			require.ErrorContains(t, err, c.want)
			require.Empty(t, installed(t, root))
		})
	}
}

func TestArchiveCancelled(t *testing.T) {
	t.Parallel()
	archive := tgz(t, entry{name: "x/bin/mongod", body: fakeMongod("6.0.5")})
	v := &vendor{archive: archive, sum: sumOf(archive), length: len(archive), hang: make(chan struct{})}
	f, root := v.start(t)
	t.Cleanup(func() { close(v.hang) })

	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, err := f.fromArchive(ctx)
		failed <- err
	}()
	require.Eventually(t, func() bool { return v.served.Load() == 1 }, time.Minute, time.Millisecond)

	// While one downloads, another waits no longer than its own ctx.
	short, cancelShort := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancelShort()
	_, err := f.fromArchive(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "waiting for another install")

	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	require.Empty(t, installed(t, root))
}

// TestArchiveAfterCrash: what a killed installer left is removed by the next.
func TestArchiveAfterCrash(t *testing.T) {
	t.Parallel()
	archive := tgz(t, entry{name: "x/bin/mongod", body: fakeMongod("6.0.5")})
	f, root := (&vendor{archive: archive, sum: sumOf(archive)}).start(t)
	script(t, filepath.Join(root, ".tmp-6.0.5-123", "mongod"), "half a m")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "6.0.5"), 0o755)) // made, not yet filled
	_, err := f.fromArchive(context.Background())
	require.NoError(t, err)
	require.Equal(t, []string{"6.0.5"}, installed(t, root))
}

func TestArchiveElsewhere(t *testing.T) {
	t.Parallel()
	f, env := testFinder(t)
	env[EnvBaseURL] = "ftp://x"
	_, err := f.fromArchive(context.Background())
	require.ErrorContains(t, err, EnvBaseURL)

	// Nobody listens: a failure within the time that a refusal takes.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	env[EnvBaseURL] = "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	begin := time.Now()
	_, err = f.fromArchive(context.Background())
	require.Error(t, err)
	require.Less(t, time.Since(begin), archiveConnect)

	f.goos = "plan9"
	_, err = f.fromArchive(context.Background())
	require.ErrorContains(t, err, "none pinned for plan9/amd64")
}

func TestCopyBounded(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, copyBounded(&out, strings.NewReader("12345"), 5))
	require.Error(t, copyBounded(&out, strings.NewReader("123456"), 5))
}
