package replset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	minVersion   = "5.0"
	probeTimeout = 30 * time.Second
)

var versionLine = regexp.MustCompile(`(?m)^db version v(\d+\.\d+\.\d+\S*)`)

// probe is the one test of "usable": the file runs here and says that it is
// mongod, new enough.
func probe(ctx context.Context, path string) (Binary, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()

	var out bytes.Buffer
	err := runBusy(ctx, func() error {
		out.Reset()
		cmd := exec.CommandContext(ctx, path, "--version")
		cmd.Stdout, cmd.Stderr = &out, &out
		// A grandchild that keeps the pipe open must not keep us.
		cmd.WaitDelay = time.Second
		return cmd.Run()
	})
	if ctx.Err() != nil {
		return Binary{}, fmt.Errorf("%s --version: %w", path, ctx.Err())
	}
	if err != nil {
		return Binary{}, fmt.Errorf("%s --version: %w%s%s", path, err, said(out.String()), missingLibraries(ctx, path))
	}
	m := versionLine.FindStringSubmatch(out.String())
	if m == nil {
		return Binary{}, fmt.Errorf("%s --version: not a mongod%s", path, said(out.String()))
	}
	if versionLess(m[1], minVersion) {
		return Binary{}, fmt.Errorf("%s: version %s is older than %s", path, m[1], minVersion)
	}
	return Binary{Path: path, Version: m[1]}, nil
}

// runBusy repeats run while it fails with ETXTBSY. A freshly written file is
// "busy" as long as any process has it open for writing, and a child that
// another goroutine forked while we wrote holds our descriptor until it execs:
// close-on-exec closes it then, so the wait is short.
func runBusy(ctx context.Context, run func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := run()
		if !errors.Is(err, syscall.ETXTBSY) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// missingLibraries asks ldd, because the loader's own message names only the
// first library that it misses.
func missingLibraries(ctx context.Context, path string) string {
	if runtime.GOOS != "linux" {
		return ""
	}
	cmd := exec.CommandContext(ctx, "ldd", path)
	cmd.WaitDelay = time.Second
	out, _ := cmd.Output() // no ldd, or not a dynamic executable: nothing to add
	var libs []string
	for line := range strings.Lines(string(out)) {
		if lib, _, found := strings.Cut(line, "=> not found"); found {
			libs = append(libs, strings.TrimSpace(lib))
		}
	}
	if libs == nil {
		return ""
	}
	return "; shared libraries missing on this machine: " + strings.Join(libs, ", ")
}

// said quotes a program's output for an error, at most its first 300 bytes.
func said(out string) string {
	out = strings.TrimSpace(out)
	if out == "" {
		return ""
	}
	if len(out) > 300 {
		out = out[:300] + "…"
	}
	return ": " + strconv.Quote(out)
}

// versionLess compares dotted numbers; what follows the number of a part, such as
// "-rc1", is ignored, and a missing part is 0.
func versionLess(a, b string) bool {
	pa, pb := versionParts(a), versionParts(b)
	for i := range pa {
		if pa[i] != pb[i] {
			return pa[i] < pb[i]
		}
	}
	return false
}

func versionParts(v string) (parts [3]int) {
	for i, s := range strings.SplitN(v, ".", 3) {
		if end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			s = s[:end]
		}
		parts[i], _ = strconv.Atoi(s)
	}
	return parts
}
