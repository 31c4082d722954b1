package replset

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The vendor's public download site and the release that is fetched from it. The
// release is pinned, so that two machines test against the same server.
const (
	vendorBaseURL  = "https://fastdl.mongodb.org"
	archiveVersion = "6.0.5"

	archiveConnect = 5 * time.Second // fail fast where there is no network
	archiveTimeout = 10 * time.Minute
	maxArchive     = 512 << 20
)

// archives maps GOOS/GOARCH to the archive's path below the base address. The
// Linux builds want OpenSSL 3, which probe will miss on older systems.
var archives = map[string]string{
	"linux/amd64":  "linux/mongodb-linux-x86_64-ubuntu2204-" + archiveVersion + ".tgz",
	"linux/arm64":  "linux/mongodb-linux-aarch64-ubuntu2204-" + archiveVersion + ".tgz",
	"darwin/amd64": "osx/mongodb-macos-x86_64-" + archiveVersion + ".tgz",
	"darwin/arm64": "osx/mongodb-macos-arm64-" + archiveVersion + ".tgz",
}

func archiveClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: archiveConnect}).DialContext,
		TLSHandshakeTimeout:   archiveConnect,
		ResponseHeaderTimeout: 15 * time.Second,
		// One download per process: an idle connection would only be a leak.
		DisableKeepAlives: true,
	}}
}

// fromArchive installs the vendor's archive. The checksum comes from the same
// place as the archive, so it proves that the bytes arrived whole; that they are
// the vendor's is what TLS proves.
func (f *finder) fromArchive(ctx context.Context) (Binary, error) {
	path, ok := archives[f.goos+"/"+f.goarch]
	if !ok {
		return Binary{}, fmt.Errorf("none pinned for %s/%s", f.goos, f.goarch)
	}
	base := f.getenv(EnvBaseURL)
	if base == "" {
		base = vendorBaseURL
	}
	if u, err := url.Parse(base); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return Binary{}, fmt.Errorf("%s=%q must be an http or https address", EnvBaseURL, base)
	}
	address := strings.TrimSuffix(base, "/") + "/" + path

	ctx, cancel := context.WithTimeoutCause(ctx, archiveTimeout, fmt.Errorf("took more than %v", archiveTimeout))
	defer cancel()
	return f.install(ctx, archiveVersion, func(ctx context.Context, dst string) error {
		want, err := f.publishedSum(ctx, address+".sha256")
		if err != nil {
			return err
		}
		f.log.Info("replset: downloading mongod", "from", address)
		file := filepath.Join(filepath.Dir(dst), "archive.tgz")
		if err := f.download(ctx, address, file, want); err != nil {
			return err
		}
		return unpackTar(file, dst)
	})
}

// publishedSum reads a checksum file: hex digits, blanks, file name. It is read
// first, because a missing one makes the archive worthless.
func (f *finder) publishedSum(ctx context.Context, address string) (string, error) {
	body, err := f.get(ctx, address)
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	line, err := bufio.NewReader(io.LimitReader(body, 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("%s: %w", address, err)
	}
	sum, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("%s: no SHA-256 in %q", address, line)
	}
	return strings.ToLower(sum), nil
}

// download writes address to file and fails unless the bytes have the sum want.
func (f *finder) download(ctx context.Context, address, file, want string) (err error) {
	body, err := f.get(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
	}()
	sum := sha256.New()
	if err := copyBounded(io.MultiWriter(out, sum), body, maxArchive); err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return fmt.Errorf("%s: SHA-256 is %s, published is %s", address, got, want)
	}
	return nil
}

func (f *finder) get(ctx context.Context, address string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", address, resp.Status)
	}
	return resp.Body, nil
}
