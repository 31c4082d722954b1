package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// find returns the browser's path.
func find(ctx context.Context) (string, error) {
	if path := os.Getenv("FAIRLOCK_CHROMIUM"); path != "" {
		return exec.LookPath(path)
	}
	if path, ok := inPath(); ok {
		return path, nil
	}
	for _, args := range [][]string{{"install"}, {"update"}, {"install"}} {
		args := append(args, "-q", "-y")
		if args[0] == "install" {
			args = append(args, "--no-install-recommends", "chromium")
		}
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		out, err := cmd.CombinedOutput()
		if path, ok := inPath(); ok {
			return path, nil
		}
		if err != nil && args[0] == "update" {
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			return "", fmt.Errorf("browser: no Chromium in FAIRLOCK_CHROMIUM or PATH, and apt-get %s: %w: %s", strings.Join(args, " "), err, lines[len(lines)-1])
		}
	}
	return "", fmt.Errorf("browser: no Chromium in FAIRLOCK_CHROMIUM or PATH, and apt-get installed none")
}

func inPath() (string, bool) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}
