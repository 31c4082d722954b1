// Package fetch gets what this machine lacks for the other lock libraries, and keeps it in the cache folder, outside the tree.
package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/fairlock/fairlock/internal/replset"
)

// MissingError says that something which cannot be had here is needed, and what to do about it.
type MissingError struct {
	What   string
	Advice string
	Err    error // why the last way led nowhere
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is missing: %v; %s", e.What, e.Err, e.Advice)
}

func (e *MissingError) Unwrap() error { return e.Err }

// Cache is the folder, made if need be, for what is fetched and built, outside the tree.
func Cache(parts ...string) (string, error) {
	base := os.Getenv(replset.EnvCache)
	if base == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder; set %s: %w", replset.EnvCache, err)
		}
		base = filepath.Join(user, "fairlock")
	}
	base, err := filepath.Abs(base)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(append([]string{base, "bench"}, parts...)...)
	return dir, os.MkdirAll(dir, 0o755)
}

// Digest names what is built from some sources.
func Digest(sources ...[]byte) string {
	h := sha256.New()
	for _, s := range sources {
		_, _ = h.Write(s)         // never fails
		_, _ = h.Write([]byte{0}) // keeps neighbours apart
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// Exists reports whether there is something at path.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Run runs a command in a folder; its output is in the error.
func Run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Into makes the folder path by filling a temporary one beside it. The rename lets it be there whole or not at all. If another process was
// first, its folder is as good.
func Into(path string, fill func(temp string) error) error {
	if Exists(path) {
		return nil
	}
	temp, err := os.MkdirTemp(filepath.Dir(path), ".fetch-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	if err := fill(temp); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil && !Exists(path) {
		return err
	}
	return os.Chmod(path, 0o755) // a temporary folder is its owner's alone
}
