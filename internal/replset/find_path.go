package replset

import (
	"context"
	"os/exec"
	"path/filepath"
)

// fromPath accepts the first mongod in PATH, or none: a second one further back
// is not what the user gets on typing "mongod".
func (f *finder) fromPath(ctx context.Context) (Binary, error) {
	path, err := exec.LookPath("mongod")
	if err != nil {
		return Binary{}, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return Binary{}, err
	}
	return probe(ctx, path)
}
