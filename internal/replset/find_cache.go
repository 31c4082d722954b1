package replset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// cacheRoot is the folder that holds one folder per source. It is not created.
func (f *finder) cacheRoot() (string, error) {
	base := f.getenv(EnvCache)
	if base == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder; set %s: %w", EnvCache, err)
		}
		base = filepath.Join(user, "fairlock")
	}
	base, err := filepath.Abs(base)
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "mongod"), nil
}

// fromCache runs what earlier installs left, or a user has put there, and takes
// the newest version.
func (f *finder) fromCache(ctx context.Context) (Binary, error) {
	root, err := f.cacheRoot()
	if err != nil {
		return Binary{}, err
	}
	// Names that begin with a dot belong to installs under way; Glob's "*" does
	// match them, so they are told apart below.
	paths, err := filepath.Glob(filepath.Join(root, "*", "mongod"))
	if err != nil {
		return Binary{}, err
	}
	var best Binary
	var errs []error
	for _, p := range paths {
		if filepath.Base(filepath.Dir(p))[0] == '.' {
			continue
		}
		b, err := probe(ctx, p)
		switch {
		case err != nil:
			errs = append(errs, err)
		case best.Path == "" || versionLess(best.Version, b.Version):
			best = b
		}
	}
	if best.Path != "" {
		return best, nil
	}
	if errs == nil {
		return Binary{}, fmt.Errorf("nothing in %s", root)
	}
	return Binary{}, errors.Join(errs...)
}
