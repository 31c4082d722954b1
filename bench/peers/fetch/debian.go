package fetch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Debian unpacks packages of the machine's own Debian into the cache and returns the folder, which is like a root folder. Nothing is
// installed. If the package lists are missing and this is root, they are fetched first.
func Debian(ctx context.Context, packages ...string) (string, error) {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", err
		}
	}
	parent, err := Cache("debian")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, packages[0])
	return dir, Into(dir, func(temp string) error {
		debs := filepath.Join(temp, "debs")
		if err := os.Mkdir(debs, 0o755); err != nil {
			return err
		}
		if err := download(ctx, debs, packages); err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return fmt.Errorf("apt-get download %s brought nothing", strings.Join(packages, " "))
		}
		for _, deb := range files {
			if err := Run(ctx, temp, "dpkg-deb", "-x", deb, temp); err != nil {
				return err
			}
		}
		return os.RemoveAll(debs)
	})
}

func download(ctx context.Context, dir string, packages []string) error {
	args := append([]string{"download"}, packages...)
	err := Run(ctx, dir, "apt-get", args...)
	if err == nil || os.Geteuid() != 0 {
		return err
	}
	if err2 := Run(ctx, dir, "apt-get", "update"); err2 != nil {
		return errors.Join(err, err2)
	}
	return Run(ctx, dir, "apt-get", args...)
}

// LibraryPath lists the folders of an unpacked root that hold shared libraries.
func LibraryPath(root string) string {
	dirs, _ := filepath.Glob(filepath.Join(root, "usr", "lib", "*-linux-*")) // fails only on a bad pattern
	return strings.Join(append(dirs, filepath.Join(root, "usr", "lib")), string(filepath.ListSeparator))
}
