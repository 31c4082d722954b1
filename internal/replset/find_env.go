package replset

import (
	"context"
	"path/filepath"
)

// fromEnv takes FAIRLOCK_MONGOD at its word: any failure but "not set" is an
// *envError, which ends the search.
func (f *finder) fromEnv(ctx context.Context) (Binary, error) {
	value := f.getenv(EnvMongod)
	if value == "" {
		return Binary{}, errNotSet
	}
	path, err := filepath.Abs(value)
	if err != nil {
		return Binary{}, &envError{value, err}
	}
	b, err := probe(ctx, path)
	if err != nil {
		return Binary{}, &envError{value, err}
	}
	return b, nil
}
