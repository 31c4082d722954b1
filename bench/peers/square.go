package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/fairlock/bench/peers/fetch"
	"github.com/fairlock/fairlock/bench/run"
)

// SquareModule is the library of the contender in square. It is fetched when that is built, for not every module proxy serves it.
const SquareModule = "github.com/square/mongo-lock"

const squareAdvice = "run from a checkout, with a module proxy that serves it"

var square = run.Contestant{Kind: "square-mongo-lock", Server: "mongo", Command: squareCommand, Marks: true}

// squareLimit bounds the build, with the fetching of what it needs.
const squareLimit = 5 * time.Minute

// squareBinary is the contender's program. A failure lasts as long as the process: asking the proxy again would give the same answer.
var squareBinary = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), squareLimit)
	defer cancel()
	return buildSquare(ctx)
})

// squareCommand is the process of one contender. If nothing can be built, it fails and says why.
func squareCommand(args []string) *exec.Cmd {
	path, err := squareBinary()
	if err != nil {
		return exec.Command("sh", "-c", `echo "$1" >&2; exit 1`, "sh", fmt.Sprint(err))
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // as for the contenders of the harness's binary
	return cmd
}

// buildSquare builds the module in square. Only a library that cannot be fetched is a *fetch.MissingError of [SquareModule]; what fails to
// compile is not. Go's own cache makes a build that changes nothing cheap, so that there is none of ours that could be old.
func buildSquare(ctx context.Context) (string, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return "", &fetch.MissingError{What: "go", Advice: squareAdvice, Err: err}
	}
	_, here, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(here), "square")
	version, err := squareVersion(source)
	if err != nil {
		return "", err
	}
	// One folder for each checkout: its binary is not another's.
	dir, err := fetch.Cache("square", fetch.Digest([]byte(source)))
	if err != nil {
		return "", err
	}
	// In a folder without a module, so that the answer is of the library alone.
	if err := goRun(ctx, dir, "mod", "download", SquareModule+"@"+version); err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return "", &fetch.MissingError{What: SquareModule, Advice: squareAdvice, Err: err}
	}
	binary := filepath.Join(dir, "square")
	built := fmt.Sprintf("%s.%d", binary, os.Getpid())
	defer func() { _ = os.Remove(built) }() // unless it was renamed
	if err := goRun(ctx, source, "build", "-mod=readonly", "-o", built, "."); err != nil {
		return "", err
	}
	return binary, os.Rename(built, binary) // over an older one, which contenders may still run
}

func squareVersion(source string) (string, error) {
	text, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok && path == SquareModule {
			return version, nil
		}
	}
	return "", errors.New("peers: square/go.mod does not require " + SquareModule)
}

func goRun(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}
