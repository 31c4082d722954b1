package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// envNoFaketime says inside why libfaketime could not be had outside.
const envNoFaketime = "FAIRLOCK_LAB_NO_FAKETIME"

// faketimeLibrary finds libfaketime for programs with threads.
func faketimeLibrary() (string, error) {
	for _, pattern := range []string{"/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0], nil
		}
	}
	if why := os.Getenv(envNoFaketime); why != "" {
		return "", errors.New(why)
	}
	return "", errors.New("lab: libfaketime is not installed")
}

// installFaketime has apt-get install it. The lists of packages are brought up to date only if it is not found in them.
func installFaketime(ctx context.Context) error {
	apt := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		out, err := cmd.CombinedOutput()
		if err != nil {
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			return fmt.Errorf("lab: libfaketime is missing, and apt-get %s: %w: %s", strings.Join(args, " "), err, lines[len(lines)-1])
		}
		return nil
	}
	if apt("install", "-y", "libfaketime") == nil {
		return nil
	}
	if err := apt("update"); err != nil {
		return err
	}
	return apt("install", "-y", "libfaketime")
}

// ClockLag is how much later the program sees a change, at most: it reads the file that often.
const ClockLag = time.Second

// ServerClock moves the wall clock of a program that uses the C library, such as mongod, while it runs. Its monotonic clock goes
// on as it is.
type ServerClock struct {
	library, file string
	mu            sync.Mutex // serialises Set
}

// NewServerClock makes a clock that goes right so far, with its file in dir.
func NewServerClock(dir string) (*ServerClock, error) {
	library, err := faketimeLibrary()
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, "clock-")
	if err != nil {
		return nil, err
	}
	c := &ServerClock{library: library, file: f.Name()}
	return c, errors.Join(f.Close(), c.Set(0))
}

// Apply makes a command that has not been started follow the clock.
func (c *ServerClock) Apply(cmd *exec.Cmd) {
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env,
		"LD_PRELOAD="+c.library,
		"FAKETIME_TIMESTAMP_FILE="+c.file,
		// Without a cache the file is opened for each question.
		"FAKETIME_CACHE_DURATION="+strconv.Itoa(int(ClockLag/time.Second)),
		// The new name and the old.
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1",
		// Its own guess, for this C library, is to take waits on the monotonic clock for waits on the other one: they then end at once,
		// the server spins, and a write takes 90 ms in place of 4.
		"FAKETIME_FORCE_MONOTONIC_FIX=0",
	)
}

// Set moves the clock to offset from the true time, within ClockLag.
func (c *ServerClock) Set(offset time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Renamed into place: the program reads at any moment, and takes an empty file for no offset.
	next := c.file + ".next"
	text := strconv.FormatFloat(offset.Seconds(), 'f', 3, 64) + "\n"
	if offset >= 0 {
		text = "+" + text
	}
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.file)
}
